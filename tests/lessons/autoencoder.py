"""Lesson 4: an autoencoder of convolutions and transposed convolutions."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from lessons.given import digits
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(nn.Module):
    def __init__(self, code=16):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1),  # (n, 8, 14, 14)
            nn.ReLU(True),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),  # (n, 16, 7, 7)
            nn.ReLU(True),
            nn.Flatten(),
            nn.Linear(16 * 7 * 7, code),
        )
        self.decoder = nn.Sequential(
            nn.Linear(code, 16 * 7 * 7),
            nn.Unflatten(1, (16, 7, 7)),
            nn.ReLU(True),
            nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1, output_padding=1),
            nn.ReLU(True),
            nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


def make():
    return Autoencoder()


def data(shuffle=True):
    images, _ = digits(800, normalize=False)
    return DataLoader(TensorDataset(torch.as_tensor(images)), batch_size=40, shuffle=shuffle)


def train(model, loader, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, weight_decay=1e-5)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    history = []
    for _epoch in range(epochs):
        model.train()
        for (x,) in loader:
            reconstruction = model(x)
            loss = F.mse_loss(reconstruction, x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.detach().numpy().item())
        scheduler.step()
    return history


def evaluate(model):
    """The mean squared error on digits that were held out, and of their means."""
    x = torch.as_tensor(digits(300, "test", normalize=False)[0])
    model.eval()
    with torch.no_grad():
        error = F.mse_loss(model(x), x)
        trivial = ((x - x.mean(dim=0, keepdim=True)) ** 2).mean()
    return float(error), float(trivial)


def lesson(seed=0, epochs=10):
    torch.manual_seed(seed)
    model = make()
    losses = train(model, data(), epochs)
    return losses, evaluate(model)


if __name__ == "__main__":
    losses, (error, trivial) = lesson()
    print(f"trained to {losses[-1]:.4f}, held out {error:.4f}; the mean has {trivial:.4f}")
