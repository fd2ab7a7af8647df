"""Lesson 8: two networks against each other (DCGAN: Radford et al. 2015, arXiv 1511.06434)."""

import torch
import torch.nn as nn
import torch.optim as optim
from lessons.given import small_digits
from torch.utils.data import DataLoader, TensorDataset

nz, ngf, ndf = 16, 8, 8
real_label, fake_label = 1.0, 0.0


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),  # 4 x 4
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 3, 2, 1, bias=False),  # 7 x 7
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),  # 14 x 14
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),  # 7 x 7
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 3, 2, 1, bias=False),  # 4 x 4
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input):
        return self.main(input)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.05)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


def make():
    pair = nn.ModuleDict({"G": Generator(), "D": Discriminator()})
    pair.apply(weights_init)
    return pair


def data(shuffle=True):
    images, labels = small_digits(960)
    dataset = TensorDataset(torch.from_numpy(images) * 2 - 1, torch.from_numpy(labels))
    return DataLoader(dataset, batch_size=48, shuffle=shuffle)


def noise(count):
    return torch.randn(count, nz, 1, 1)


def train(pair, dataloader, epochs):
    netG, netD = pair["G"], pair["D"]
    criterion = nn.BCELoss()
    optimizerD = optim.Adam(netD.parameters(), lr=0.002, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=0.002, betas=(0.5, 0.999))
    losses = []
    netG.train()
    netD.train()
    for _epoch in range(epochs):
        for batch in dataloader:
            # (1) D learns to tell real digits from made ones
            netD.zero_grad()
            real = batch[0]
            size = real.size(0)
            label = torch.full((size,), real_label, device=real.device)
            errD_real = criterion(netD(real).view(-1), label)
            errD_real.backward()
            fake = netG(noise(size))
            label.fill_(fake_label)
            errD_fake = criterion(netD(fake.detach()).view(-1), label)
            errD_fake.backward()
            optimizerD.step()
            # (2) G learns to deceive D
            netG.zero_grad()
            label.fill_(real_label)
            errG = criterion(netD(fake).view(-1), label)
            errG.backward()
            optimizerG.step()
            losses.append((errD_real + errD_fake).item() + errG.item())
    return losses


def evaluate(pair):
    """How sure D is of real digits that were held out and of made ones: (mean, mean)."""
    pair.eval()
    with torch.no_grad():
        real = torch.from_numpy(small_digits(300, "test")[0]) * 2 - 1
        made = pair["G"](noise(300))
        return pair["D"](real).mean().item(), pair["D"](made).mean().item()


def lesson(seed=0, epochs=4):
    torch.manual_seed(seed)
    pair = make()
    losses = train(pair, data(), epochs)
    return losses, evaluate(pair)


if __name__ == "__main__":
    losses, (real, made) = lesson()
    print(f"the two losses add up to {losses[-1]:.3f}; D: real {real:.2f}, made {made:.2f}")
