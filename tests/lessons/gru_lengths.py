"""Lesson 6: a GRU classifies sequences of different lengths."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from lessons.given import sentences
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, count, seed=0):
        self.lists, self.labels = sentences(count, seed)

    def __len__(self):
        return len(self.lists)

    def __getitem__(self, index):
        return torch.tensor(self.lists[index]), float(self.labels[index])


def collate(batch):
    sequences, labels = zip(*batch)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(sequences, batch_first=True, padding_value=0)
    return padded, lengths, torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self, vocab_size=9, embed=8, hidden=24):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed, padding_idx=0)
        self.gru = nn.GRU(embed, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(4 * hidden, 1)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        output, last = self.gru(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        mask = (tokens != 0).unsqueeze(-1)
        highest = output.masked_fill(~mask, float("-inf")).max(dim=1)[0]
        features = torch.cat([last[0], last[1], highest], dim=1)
        return self.fc(features).squeeze(1)


def make():
    return Classifier()


def data(shuffle=True):
    return DataLoader(Sentences(600), batch_size=30, shuffle=shuffle, collate_fn=collate)


def train(model, loader, epochs):
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, "min", factor=0.3, patience=0, threshold=0.8
    )
    losses = []
    for _ in range(epochs):
        model.train()
        total = 0.0
        for tokens, lengths, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(tokens, lengths), labels)
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
            total += loss.item() * len(labels)
        scheduler.step(total / len(loader.dataset))
    return losses


def evaluate(model):
    held_out = Sentences(300, seed=1)
    tokens, lengths, labels = next(iter(DataLoader(held_out, len(held_out), collate_fn=collate)))
    model.eval()
    with torch.no_grad():
        logits = model(tokens, lengths)
        loss = F.binary_cross_entropy(torch.sigmoid(logits), labels)
        right = ((logits > 0) == labels.bool()).sum().item()
    return loss.item(), right / len(labels)


def lesson(seed=0, epochs=3):
    torch.manual_seed(seed)
    model = make()
    losses = train(model, data(), epochs)
    return losses, evaluate(model)


if __name__ == "__main__":
    losses, (loss, accuracy) = lesson()
    print(f"trained to {losses[-1]:.3f}, held out {loss:.3f}, accuracy {accuracy:.1%}")
