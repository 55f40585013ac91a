# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Qwen2 of several sizes, with random weights, its own code and its own loss."""
import torch

from castor_random import fill_normal

STDDEV = 0.02

# Source of the sizes: the configurations published with Qwen2.5; `tiny` is ours.
SIZES = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": True},
    "1.5b": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True},
    "3b": {"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True},
    "7b": {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False},
}  # fmt: skip


def sizes_of(name):
    kind, _, size = name.partition(":")
    if kind != "qwen2" or size not in SIZES:
        raise ValueError(f"the models of Hugging Face here are {', '.join('qwen2:' + size for size in SIZES)}, not {name}")
    return SIZES[size]


def vocab_of(name):
    return sizes_of(name)["vocab_size"]


def make(name, seq, recompute):
    """The model on the meta device."""
    import transformers

    transformers.logging.set_verbosity_error()
    with torch.device("meta"):
        model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**sizes_of(name)))
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train()


def with_adapters(model, rank):
    import peft

    return peft.get_peft_model(model, peft.LoraConfig(r=rank, target_modules="all-linear", task_type="CAUSAL_LM"))


def in_4_bit(model, seed, device):
    """The model on the host with first values: bytes of bitsandbytes, quantized on the device, in the linear layers of its blocks,
    and bf16 elsewhere."""
    import bitsandbytes.nn as bnb

    values_of = {}
    for stream, (name, parameter) in enumerate(model.named_parameters()):
        values_of[parameter] = lambda it=parameter, name=name, stream=stream: first_values(it, name, seed, stream, device).bfloat16()
    for module in blocks(model).modules():
        for name, linear in module.named_children():
            if isinstance(linear, torch.nn.Linear):
                layer = bnb.Linear4bit(linear.in_features, linear.out_features, compute_dtype=torch.bfloat16, device="meta")
                weight = bnb.Params4bit(values_of[linear.weight](), requires_grad=False, quant_type="nf4", module=layer)
                layer.weight, layer.bias = weight.to(device).to("cpu"), linear.bias
                setattr(module, name, layer)
    for parameter in [parameter for parameter in model.parameters() if parameter.is_meta]:
        values = torch.nn.Parameter(values_of[parameter]().cpu(), requires_grad=False)
        for module in model.modules():
            for name, own in module._parameters.items():
                if own is parameter:
                    module._parameters[name] = values
    give_buffers(model, "cpu")
    return model


def base_of(model):
    """Without peft's classes around it."""
    return getattr(model, "get_base_model", lambda: model)()


def blocks(model):
    return base_of(model).model.layers


def place(model, device):
    """Gives the model uninitialised memory. Tied parameters become two when they get memory."""
    model.to_empty(device=device)
    base_of(model).tie_weights()


def first_values(parameter, name, seed, stream, device):
    values = torch.empty(parameter.shape, dtype=torch.float32, device=device)
    if parameter.dim() == 2:
        fill_normal(values, STDDEV, seed, stream, device)
    else:
        values.fill_(1.0 if name.endswith("weight") else 0.0)
    return values


@torch.no_grad()
def initialise(model, seed, device, local=lambda parameter: parameter):
    for stream, (name, parameter) in enumerate(model.named_parameters()):
        local(parameter).copy_(first_values(parameter, name, seed, stream, device))
    give_buffers(model, device)


def give_buffers(model, device):
    """The frequencies of the rotary embedding are in no file, and meta has none."""
    rotary = base_of(model).model.rotary_emb
    made = type(rotary)(model.config)
    for name, buffer in made.named_buffers():
        setattr(rotary, name, buffer.to(device))


def loss_of(model, ids, target, kind):
    """transformers shifts the labels itself; `kind` has no effect."""
    return model(input_ids=ids, labels=ids, use_cache=False).loss
