"""Lesson 3: a small residual network (He et al. 2015, arXiv 1512.03385)."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from lessons.given import small_digits
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != self.expansion * planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, self.expansion * planes, 1, stride=stride, bias=False),
                nn.BatchNorm2d(self.expansion * planes),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, block, num_blocks, num_classes=10):
        super().__init__()
        self.in_planes = 8
        self.conv1 = nn.Conv2d(1, 8, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.layer1 = self._make_layer(block, 8, num_blocks[0], stride=1)
        self.layer2 = self._make_layer(block, 16, num_blocks[1], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16 * block.expansion, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_in", nonlinearity="relu")
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def _make_layer(self, block, planes, num_blocks, stride):
        layers = []
        for each in [stride] + [1] * (num_blocks - 1):
            layers.append(block(self.in_planes, planes, each))
            self.in_planes = planes * block.expansion
        return nn.Sequential(*layers)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer2(self.layer1(out))
        out = torch.flatten(self.avgpool(out), 1)
        return self.fc(out)


def make():
    return ResNet(BasicBlock, [1, 2])


def data(shuffle=True):
    images, labels = small_digits(960)
    mean, std = 0.1307, 0.3081
    dataset = TensorDataset((torch.from_numpy(images) - mean) / std, torch.from_numpy(labels))
    return DataLoader(dataset, 48, shuffle=shuffle)


def train(model, loader, epochs):
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs * len(loader))
    losses = []
    model.train()
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    return losses


def evaluate(model):
    images, labels = small_digits(500, "test")
    inputs, targets = (torch.tensor(images) - 0.1307) / 0.3081, torch.tensor(labels)
    model.eval()
    with torch.no_grad():
        outputs = model(inputs)
        loss = F.cross_entropy(outputs, targets)
        accuracy = (outputs.argmax(1) == targets).float().mean()
    return loss.item(), accuracy.item()


def lesson(seed=0, epochs=4):
    torch.manual_seed(seed)
    model = make()
    losses = train(model, data(), epochs)
    return losses, evaluate(model)


if __name__ == "__main__":
    losses, (loss, accuracy) = lesson()
    print(f"trained to {losses[-1]:.3f}, held out {loss:.3f}, accuracy {accuracy:.1%}")
