"""Lesson 7: a small GPT (Radford et al. 2019) learns a rhyme letter by letter."""

import math

import torch
import torch.nn as nn
from lessons.given import rhyme
from torch.nn import functional as F

TEXT = rhyme()
chars = sorted(set(TEXT))
stoi = {c: i for i, c in enumerate(chars)}
itos = {i: c for c, i in stoi.items()}
block_size, batch_size, n_embd, n_head, n_layer, dropout = 32, 12, 48, 4, 2, 0.1


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        assert n_embd % n_head == 0
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(dropout)
        mask = torch.tril(torch.ones(block_size, block_size))
        self.register_buffer("mask", mask.view(1, 1, block_size, block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(n_embd, dim=2)
        q = q.view(B, T, n_head, C // n_head).transpose(1, 2)
        k = k.view(B, T, n_head, C // n_head).transpose(1, 2)
        v = v.view(B, T, n_head, C // n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention()
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * n_embd, n_embd),
            nn.Dropout(dropout),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab_size, n_embd),
                "wpe": nn.Embedding(block_size, n_embd),
                "h": nn.ModuleList([Block() for _ in range(n_layer)]),
                "ln_f": nn.LayerNorm(n_embd),
            }
        )
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.apply(self._init_weights)
        self.transformer["wte"].weight = self.lm_head.weight  # tied

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx, targets=None):
        _, T = idx.size()
        pos = torch.arange(0, T, dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.transformer["wte"](idx) + self.transformer["wpe"](pos)
        for block in self.transformer["h"]:
            x = block(x)
        logits = self.lm_head(self.transformer["ln_f"](x))
        if targets is None:
            return logits, None
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -block_size:])
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("inf")
            probs = F.softmax(logits, dim=-1)
            idx_next = torch.multinomial(probs, num_samples=1)
            idx = torch.cat((idx, idx_next), dim=1)
        return idx

    def configure_optimizers(self, weight_decay, learning_rate):
        params = {n: p for n, p in self.named_parameters() if p.requires_grad}
        decay = [p for p in params.values() if p.dim() >= 2]
        nodecay = [p for p in params.values() if p.dim() < 2]
        groups = [
            {"params": decay, "weight_decay": weight_decay},
            {"params": nodecay, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95))


def make():
    return GPT(len(chars))


def encoded():
    return torch.tensor([stoi[c] for c in TEXT], dtype=torch.long)


def data(shuffle=True, count=30):
    """`count` batches from random places of the text; without `shuffle`, from fixed ones."""
    codes = encoded()
    batches = []
    for number in range(count):
        ix = torch.randint(len(codes) - block_size, (batch_size,))
        if not shuffle:
            ix = (torch.arange(batch_size) * 211 + number * 37) % (len(codes) - block_size)
        x = torch.stack([codes[i : i + block_size] for i in ix])
        y = torch.stack([codes[i + 1 : i + 1 + block_size] for i in ix])
        batches.append((x, y))
    return batches


def train(model, batches, epochs):
    optimizer = model.configure_optimizers(weight_decay=0.1, learning_rate=5e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 10))
    losses = []
    model.train()
    for _ in range(epochs):
        for x, y in batches:
            _, loss = model(x, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    return losses


@torch.no_grad()
def evaluate(model):
    """The loss over windows all along the text, and the share of letters guessed."""
    model.eval()
    rows = encoded()[: 40 * (block_size + 1)].view(-1, block_size + 1)
    logits, loss = model(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
    return loss.item(), (logits.argmax(-1) == rows[:, 1:]).float().mean().item()


def lesson(seed=0, epochs=5):
    torch.manual_seed(seed)
    model = make()
    losses = train(model, data(), epochs)
    assert model.generate(torch.zeros((1, 1), dtype=torch.long), 8, top_k=3).shape == (1, 9)
    return losses, evaluate(model)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = make()
    print(f"trained to {train(model, data(), 10)[-1]:.3f}")
    model.eval()
    start = torch.tensor([[stoi[c] for c in "this is"]])
    print("".join(itos[int(i)] for i in model.generate(start, 200, temperature=0.5)[0]))
