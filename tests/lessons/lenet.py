"""Lesson 2: LeNet-5 (LeCun et al. 1998), with tanh and average pooling as in its day."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from lessons.given import digits
from torch import optim
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, count, split="train"):
        self.images, self.labels = digits(count, split)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return torch.tensor(self.images[index]), int(self.labels[index])


class LeNet(nn.Module):
    def __init__(self):
        super(LeNet, self).__init__()  # noqa: UP008 (as older lessons write it)
        self.conv1 = nn.Conv2d(1, 6, kernel_size=5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, kernel_size=5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2)
        x = x.view(-1, self.num_flat_features(x))
        x = torch.tanh(self.fc1(x))
        x = torch.tanh(self.fc2(x))
        return F.log_softmax(self.fc3(x), dim=1)

    def num_flat_features(self, x):
        number = 1
        for size in x.size()[1:]:
            number *= size
        return number


def make():
    return LeNet()


def data(shuffle=True):
    return DataLoader(Digits(800), batch_size=32, shuffle=shuffle, num_workers=0, drop_last=True)


def train(model, loader, epochs):
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    model.train()
    for _epoch in range(epochs):
        for images, labels in loader:
            loss = F.nll_loss(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@torch.no_grad()
def evaluate(model):
    model.eval()
    total, correct, count = 0.0, 0, 0
    for images, labels in DataLoader(Digits(500, "test"), batch_size=200):
        output = model(images)
        total += F.nll_loss(output, labels, reduction="sum").item()
        pred = output.argmax(dim=1, keepdim=True)
        correct += pred.eq(labels.view_as(pred)).sum().item()
        count += len(images)
    return total / count, correct / count


def lesson(seed=0, epochs=3):
    torch.manual_seed(seed)
    model = make()
    losses = train(model, data(), epochs)
    return losses, evaluate(model)


if __name__ == "__main__":
    losses, (loss, accuracy) = lesson()
    print(f"trained to {losses[-1]:.3f}, held out {loss:.3f}, accuracy {accuracy:.1%}")
