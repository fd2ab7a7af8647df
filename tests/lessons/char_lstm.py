"""Lesson 5: an LSTM learns a rhyme letter by letter, then writes one."""

import torch
import torch.nn as nn
from lessons.given import rhyme

TEXT = rhyme()
LETTERS = sorted(set(TEXT))
NUMBER = {letter: number for number, letter in enumerate(LETTERS)}


class CharLSTM(nn.Module):
    def __init__(self, vocab_size, embed=16, hidden=48, layers=2):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.embedding = nn.Embedding(vocab_size, embed)
        self.lstm = nn.LSTM(embed, hidden, num_layers=layers, batch_first=True)
        self.fc = nn.Linear(hidden, vocab_size)

    def forward(self, x, state=None):
        out, state = self.lstm(self.embedding(x), state)
        return self.fc(out), state

    def init_state(self, batch_size):
        zeros = torch.zeros(self.layers, batch_size, self.hidden)
        return zeros, zeros.clone()


def make():
    return CharLSTM(len(LETTERS))


def data(shuffle=True, batch=8, steps=20):
    """(input, target) windows in the order of the text: the state is carried from one to the next.

    With `shuffle`, the text starts at a random place.
    """
    codes = torch.tensor([NUMBER[letter] for letter in TEXT], dtype=torch.long)
    if shuffle:
        codes = torch.roll(codes, int(torch.randint(len(TEXT), (1,))))
    length = (len(codes) - 1) // batch
    inputs = codes[: batch * length].view(batch, length)
    targets = codes[1 : batch * length + 1].view(batch, length)
    return [(inputs[:, i : i + steps], targets[:, i : i + steps])
            for i in range(0, length - steps + 1, steps)]  # fmt: skip


def train(model, batches, epochs):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)
    losses = []
    model.train()
    for _ in range(epochs):
        state = model.init_state(len(batches[0][0]))
        for inputs, targets in batches:
            state = tuple(part.detach() for part in state)
            optimizer.zero_grad()
            logits, state = model(inputs, state)
            loss = criterion(logits.transpose(1, 2), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
            optimizer.step()
            losses.append(loss.item())
    return losses


def write(model, start="this is", count=40, temperature=0.5):
    model.eval()
    with torch.no_grad():
        text, state = list(start), None
        inputs = torch.tensor([[NUMBER[letter] for letter in start]])
        for _ in range(count):
            logits, state = model(inputs, state)
            probabilities = torch.softmax(logits[0, -1] / temperature, dim=0)
            inputs = torch.multinomial(probabilities, 1).view(1, 1)
            text.append(LETTERS[inputs.item()])
    return "".join(text)


def evaluate(model):
    """The loss over the whole text, and the share of letters that were guessed."""
    model.eval()
    codes = torch.tensor([[NUMBER[letter] for letter in TEXT[:1000]]])
    with torch.no_grad():
        logits, _ = model(codes[:, :-1])
        loss = nn.functional.cross_entropy(logits.squeeze(0), codes[0, 1:])
        guessed = torch.eq(logits.argmax(-1), codes[:, 1:]).double().mean()
    return loss.item(), guessed.item()


def lesson(seed=0, epochs=6):
    torch.manual_seed(seed)
    model = make()
    losses = train(model, data(), epochs)
    assert len(write(model)) == 47
    return losses, evaluate(model)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = make()
    print(f"trained to {train(model, data(), 20)[-1]:.3f}:\n{write(model, count=200)}")
