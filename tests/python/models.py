# SPDX-License-Identifier: Apache-2.0
"""Small models of all kinds that users bring, with random weights, and a loss of each on random data."""

from __future__ import annotations

import torch
from torch import nn

from where import DEVICE

VOCABULARY, WIDTH, N_LAYERS, N_HEADS, N_TOKENS = 96, 32, 2, 4, 12
LAYER = {
    "hidden_size": WIDTH,
    "intermediate_size": 2 * WIDTH,
    "num_hidden_layers": N_LAYERS,
    "num_attention_heads": N_HEADS,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

# The wheel of torchvision for GPUs cannot load its operators beside a torch without CUDA. Its import, and that of
# transformers beside it, needs two of them.
OF_TORCHVISION = torch.library.Library("torchvision", "FRAGMENT")
if torch.version.cuda is None:
    for operator in ("nms", "qnms"):
        OF_TORCHVISION.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def tokens(seed: int, *sizes: int) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, sizes or (2, N_TOKENS), generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def values(seed: int, *sizes: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def dtype_of(model: nn.Module) -> torch.dtype:
    return next(model.parameters()).dtype


def causal(config_class: str, **options):
    """A decoder of transformers; sizes that all configurations know are set."""

    def make():
        import transformers

        sizes = {
            **LAYER,
            "vocab_size": VOCABULARY,
            "num_key_value_heads": 2,
            "max_position_embeddings": 64,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        }
        config = getattr(transformers, config_class)(**{**sizes, **options})
        return transformers.AutoModelForCausalLM.from_config(config)

    def loss(model, seed):
        ids = tokens(seed)
        return model(input_ids=ids, labels=ids, use_cache=False).loss

    return make, loss


def encoder(config_class: str, **options):
    def make():
        import transformers

        config = getattr(transformers, config_class)(
            vocab_size=VOCABULARY, max_position_embeddings=64, pad_token_id=0, **LAYER, **NO_DROPOUT, **options
        )
        return transformers.AutoModelForMaskedLM.from_config(config)

    def loss(model, seed):
        ids = tokens(seed)
        return model(input_ids=ids, labels=ids).loss

    return make, loss


def t5():
    def make():
        from transformers import T5Config, T5ForConditionalGeneration

        return T5ForConditionalGeneration(
            T5Config(
                vocab_size=VOCABULARY,
                d_model=WIDTH,
                d_kv=8,
                d_ff=2 * WIDTH,
                num_layers=N_LAYERS,
                num_heads=N_HEADS,
                dropout_rate=0.0,
                decoder_start_token_id=0,
            )
        )

    def loss(model, seed):
        return model(input_ids=tokens(seed), labels=tokens(seed + 1000), use_cache=False).loss

    return make, loss


def whisper():
    def make():
        from transformers import WhisperConfig, WhisperForConditionalGeneration

        return WhisperForConditionalGeneration(
            WhisperConfig(
                vocab_size=VOCABULARY,
                d_model=WIDTH,
                encoder_layers=N_LAYERS,
                decoder_layers=N_LAYERS,
                encoder_attention_heads=N_HEADS,
                decoder_attention_heads=N_HEADS,
                encoder_ffn_dim=2 * WIDTH,
                decoder_ffn_dim=2 * WIDTH,
                num_mel_bins=8,
                max_source_positions=16,
                max_target_positions=32,
                dropout=0.0,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
                decoder_start_token_id=1,
            )
        )

    def loss(model, seed):
        sound = values(seed, 2, 8, 32, dtype=dtype_of(model))
        return model(input_features=sound, labels=tokens(seed), use_cache=False).loss

    return make, loss


def classifier(kind: str, image_size: int, **options):
    """A classifier of images of transformers."""

    def make():
        import transformers

        config = getattr(transformers, f"{kind}Config")(image_size=image_size, num_labels=5, **options)
        return getattr(transformers, f"{kind}ForImageClassification")(config)

    def loss(model, seed):
        pixels = values(seed, 2, 3, image_size, image_size, dtype=dtype_of(model))
        labels = tokens(seed, 2) % 5
        return model(pixel_values=pixels, labels=labels).loss

    return make, loss


def contrastive(kind: str):
    """CLIP, which has a parameter without dimensions, and SigLIP."""

    def make():
        import transformers

        words = {"vocab_size": VOCABULARY, "max_position_embeddings": 16, "pad_token_id": 0, "eos_token_id": 2}
        config = getattr(transformers, f"{kind}Config")(
            text_config={**LAYER, **words, "projection_size": WIDTH},
            vision_config={**LAYER, "image_size": 16, "patch_size": 4},
            projection_dim=WIDTH,
        )
        return getattr(transformers, f"{kind}Model")(config)

    def loss(model, seed):
        pixels = values(seed, 2, 3, 16, 16, dtype=dtype_of(model))
        return model(input_ids=tokens(seed), pixel_values=pixels, return_loss=True).loss

    return make, loss


def resnet():
    """Of torchvision: batch norms with buffers, and weights in channels_last."""

    def make():
        from torchvision.models.resnet import BasicBlock, ResNet

        return ResNet(BasicBlock, [2, 2, 1, 1], num_classes=5, width_per_group=64).to(memory_format=torch.channels_last)

    def loss(model, seed):
        pixels = values(seed, 2, 3, 32, 32, dtype=dtype_of(model)).contiguous(memory_format=torch.channels_last)
        return nn.functional.cross_entropy(model(pixels).float(), tokens(seed, 2) % 5)

    return make, loss


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.recurrent = nn.LSTM(WIDTH, WIDTH, N_LAYERS, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        return self.head(self.recurrent(self.embedding(ids))[0])


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.transformer = nn.Transformer(WIDTH, N_HEADS, N_LAYERS, N_LAYERS, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        return self.head(self.transformer(self.embedding(ids), self.embedding(ids.flip(1))))


class Experts(nn.Module):
    """A block whose tokens go to one expert of several; experts without a token get no gradient."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)) for _ in range(4)
        )

    def forward(self, x, chosen):
        y = self.norm(x)
        out = torch.zeros_like(y)
        for number, expert in enumerate(self.experts):
            rows = chosen == number
            if rows.any():
                out = out.index_put((rows,), expert(y[rows]))
        return x + out


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Experts() for _ in range(N_LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, ids % 3)  # the fourth expert is never chosen
        return self.head(x)


def of_class(model_class: type[nn.Module]):
    def loss(model, seed):
        ids = tokens(seed)
        return nn.functional.cross_entropy(model(ids).float().flatten(0, 1), ids.roll(-1, 1).flatten())

    return model_class, loss


MIXTURE = {"num_experts_per_tok": 2, "router_aux_loss_coef": 0.0}

# A function that makes the model, and one that gives its loss for a seed.
MODELS = {
    "GPT-2": causal("GPT2Config", n_embd=WIDTH, n_layer=N_LAYERS, n_head=N_HEADS, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0),
    "Llama": causal("LlamaConfig"),
    "Qwen2": causal("Qwen2Config", tie_word_embeddings=True),
    "Qwen3": causal("Qwen3Config", head_dim=8),
    "Mistral": causal("MistralConfig"),
    "Mixtral": causal("MixtralConfig", num_local_experts=4, **MIXTURE),
    "Qwen2-MoE": causal(
        "Qwen2MoeConfig", num_experts=4, moe_intermediate_size=32, shared_expert_intermediate_size=32, **MIXTURE
    ),
    "Gemma": causal("GemmaConfig", head_dim=8),
    "Phi": causal("PhiConfig", resid_pdrop=0.0),
    "Mamba": causal("MambaConfig", state_size=4, time_step_rank=4),
    "BERT": encoder("BertConfig"),
    "RoBERTa": encoder("RobertaConfig"),
    "DeBERTa": encoder("DebertaV2Config", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8),
    "T5": t5(),
    "Whisper": whisper(),
    "ViT": classifier("ViT", 16, patch_size=4, **LAYER, **NO_DROPOUT),
    "CLIP": contrastive("CLIP"),
    "SigLIP": contrastive("Siglip"),
    "ConvNeXt": classifier("ConvNext", 32, hidden_sizes=[16, 32, 32, 32], depths=[2, 2, 2, 2]),
    "Swin": classifier(
        "Swin", 32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, drop_path_rate=0.0, **NO_DROPOUT
    ),
    "ResNet": resnet(),
    "LSTM": of_class(Recurrent),
    "nn.Transformer": of_class(Translator),
    "experts in a ModuleList": of_class(Mixture),
}
