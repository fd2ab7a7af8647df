"""Recurrent layers, cells and packed sequences: PyTorch's values, and those of plain loops.

Literal expectations were computed once with PyTorch 2.13 from the inputs that `wave` makes.
"""

import numpy as np
import pytest
from training import scheduler
from waves import leaf, wave

import minidp as dp
from minidp import nn
from minidp.errors import ShapeError
from minidp.nn.utils import rnn
from minidp.testing import gradcheck

KINDS = {
    "tanh": (nn.RNN, {}), "relu": (nn.RNN, {"nonlinearity": "relu"}), "gru": (nn.GRU, {}),
    "lstm": (nn.LSTM, {}), "projected": (nn.LSTM, {"proj_size": 1}),
}  # fmt: skip
EXPECTED = {
    "tanh": ([-0.9780679073, -0.9493700465, -0.7763043116, 0.7330307177], [-3.7734090296],
             4.716565605, 0.674592526),
    "relu": ([0.0, 0.0, 0.0, 0.3731891094], [10.9913345206], 4.432407871, 2.667506227),
    "gru": ([-0.1020481558, 0.7127535844, 0.4558112552, 0.7733799054], [1.8341689141],
            1.780222298, 5.629651192),
    "lstm": ([-0.1095552754, 0.0923140395, 0.1487640774, 0.1294852489],
             [-2.4054188178, 0.3215993274], 2.879054097, 2.731855198),
    "projected": ([0.0805366671, 0.1314385026], [2.2457087584, 1.1205350654],
                  0.834017347, 1.238451452),
}  # fmt: skip


def layer(kind, **options):
    """A layer from 3 values to 2 with weights that anyone can make again."""
    make, own = KINDS[kind]
    made = make(3, 2, **own, **options).double()
    with dp.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(wave(*p.shape, phase=0.3 * i))
    return made


def states(last):
    return list(last) if isinstance(last, tuple) else [last]


def close(a, b, tolerance=1e-12):
    a, b = (x.detach().numpy() if isinstance(x, dp.Tensor) else np.asarray(x) for x in (a, b))
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_are_pytorchs(kind):
    made, x = layer(kind, num_layers=2, bidirectional=True), leaf(4, 2, 3)
    y, last = made(x)
    loss = (y * dp.tensor(wave(*y.shape, phase=1.0))).sum()
    for each in states(last):
        loss = loss + (each * dp.tensor(wave(*each.shape, phase=2.0))).sum()
    loss.backward()
    some, sums, of_x, of_weights = EXPECTED[kind]
    close(y[1, 0], some, 1e-9)
    close([each.sum().item() for each in states(last)], sums, 1e-9)
    assert x.grad.square().sum().item() == pytest.approx(of_x, rel=1e-8)
    found = sum((p.grad.numpy() * wave(*p.shape)).sum() for p in made.parameters())
    assert found == pytest.approx(of_weights, rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives(kind):
    made, x = layer(kind, num_layers=2, bidirectional=True), leaf(3, 2, 3)
    initial = [each.detach().clone().requires_grad_() for each in states(made(x)[1])]

    def run(x, *initial):
        y, last = made(x, initial if len(initial) > 1 else initial[0])
        return (y, *states(last))

    assert gradcheck(run, [x, *initial])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(x, h, c, w, u, b, d):
    i, f, g, o = np.split(w @ x + b + u @ h + d, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(x, h, w, u, b, d):
    (r, z, n), (s, y, m) = np.split(w @ x + b, 3), np.split(u @ h + d, 3)
    z, n = sigmoid(z + y), np.tanh(n + sigmoid(r + s) * m)
    return ((1 - z) * n + z * h,)


@pytest.mark.parametrize("kind,step", [("lstm", lstm_step), ("gru", gru_step)])
def test_a_layer_is_a_loop_over_steps(kind, step):
    made, x = layer(kind), wave(5, 1, 3)
    weights = [p.detach().numpy() for p in made.parameters()]
    initial = [wave(1, 1, 2, phase=k) for k in range(2 if kind == "lstm" else 1)]
    state, expected = [each[0, 0] for each in initial], []
    for row in x[:, 0]:
        state = step(row, *state, *weights)
        expected.append(state[0])
    given = [dp.tensor(each) for each in initial]
    y, last = made(dp.tensor(x), given if len(given) > 1 else given[0])
    close(y[:, 0], expected)
    for found, wanted in zip(states(last), state, strict=True):
        close(found[0, 0], wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_forms_of_input(kind):
    made, x = layer(kind, num_layers=2, bidirectional=True), leaf(4, 3, 3)
    y, last = made(x)
    first = layer(kind, num_layers=2, bidirectional=True, batch_first=True)
    y2, last2 = first(x.transpose(0, 1))
    close(y2.transpose(0, 1), y)
    y3, last3 = made(x[:, 1])
    close(y3, y[:, 1])
    for a, b, c in zip(states(last), states(last2), states(last3), strict=True):
        close(b, a)
        close(c, a[:, 1])
    y4, _ = made(dp.zeros(2, 0, 3, dtype="float64"))
    assert y4.shape == (2, 0, y.shape[2])


@pytest.mark.parametrize("enforce", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences_run_as_if_each_were_alone(kind, enforce):
    lengths = [4, 2, 1] if enforce else [1, 4, 2]
    made, x = layer(kind, num_layers=2, bidirectional=True, batch_first=True), leaf(3, 4, 3)
    packed = rnn.pack_padded_sequence(x, lengths, True, enforce)
    output, last = made(packed)
    assert isinstance(output, rnn.PackedSequence)
    y, found = rnn.pad_packed_sequence(output, batch_first=True, padding_value=-7.0)
    assert found.tolist() == lengths
    (y * (y != -7.0)).square().sum().backward()
    together, weights = x.grad, [p.grad for p in made.parameters()]
    x.grad = None
    made.zero_grad()
    for i, n in enumerate(lengths):
        alone, end = made(x[i, :n])
        close(y[i, :n], alone)
        assert (y[i, n:].detach().numpy() == -7).all()
        for a, b in zip(states(last), states(end), strict=True):
            close(a[:, i], b)
        alone.square().sum().backward()
    close(x.grad, together)
    for p, g in zip(made.parameters(), weights, strict=True):
        close(p.grad, g)


def test_cells_are_one_step_of_a_layer():
    for kind, cell in (("tanh", nn.RNNCell(3, 2)), ("relu", nn.RNNCell(3, 2, nonlinearity="relu")),
                       ("gru", nn.GRUCell(3, 2)), ("lstm", nn.LSTMCell(3, 2))):  # fmt: skip
        made, x = layer(kind), leaf(4, 3)
        weights = {k.removesuffix("_l0"): v for k, v in made.state_dict().items()}
        cell.double().load_state_dict(weights)
        state = None
        for _ in range(2):
            state = cell(x, state)
        _, last = made(dp.stack([x, x]))
        for a, b in zip(states(state), states(last), strict=True):
            close(a, b[0])
        close(states(cell(x[1]))[0], states(cell(x))[0][1])
    assert repr(nn.GRUCell(3, 2, bias=False)) == "GRUCell(3, 2, bias=False)"
    assert nn.GRUCell(3, 2, bias=False).bias_hh is None
    with pytest.raises(ShapeError, match="1D or 2D"):
        nn.LSTMCell(2, 3)(dp.zeros(1, 2, 2))
    with pytest.raises(ShapeError, match=r"hidden size \(2, 3\), got \(3, 3\)"):
        nn.GRUCell(2, 3)(dp.zeros(2, 2), dp.zeros(3, 3))
    with pytest.raises(ShapeError, match="of input_size 2"):
        nn.RNNCell(2, 3)(dp.zeros(2, 3))


def test_names_shapes_and_initial_values():
    made = nn.LSTM(30, 40, 2, bidirectional=True, proj_size=5)
    names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0"]
    assert list(made.state_dict())[:10] == names + [name + "_reverse" for name in names]
    assert made.weight_ih_l1_reverse.shape == (160, 10) and made.weight_hr_l0.shape == (5, 40)
    assert made.weight_hh_l0.shape == (160, 5) and len(made.all_weights) == 4
    for weight in made.parameters():
        assert 0.7 / 40**0.5 < abs(weight.data).max() <= 1 / 40**0.5
    made = nn.LSTM(2, 3, 2, dropout=0.5, bidirectional=True, batch_first=True, bias=False)
    assert repr(made) == (
        "LSTM(2, 3, num_layers=2, bias=False, batch_first=True, dropout=0.5, bidirectional=True)"
    )
    assert made.flatten_parameters() is None


def test_errors():
    for make, text in (
        (lambda: nn.RNN(2, 3, nonlinearity="x"), "Unknown nonlinearity 'x'"),
        (lambda: nn.LSTM(2, 0), "hidden_size"),
        (lambda: nn.LSTM(2, 3, 0), "num_layers"),
        (lambda: nn.LSTM(2, 3, proj_size=3), "fewer than hidden_size=3"),
        (lambda: nn.GRU(2, 3, proj_size=1), "only LSTM has projections"),
        (lambda: nn.GRU(2, 3, dropout=1.5), "probability"),
        (lambda: nn.LSTM(3, 2)(dp.zeros(2)), "2D or 3D, got 1D"),
        (lambda: nn.LSTM(3, 2)(dp.tensor(1.0)), "2D or 3D, got 0D"),
        (lambda: nn.LSTM(3, 2)(dp.zeros(2, 2, 4)), "which is 3"),
        (lambda: nn.GRU(3, 2)(dp.zeros(0, 2, 3)), "at least one step"),
        (lambda: nn.GRU(3, 2)(dp.zeros(2, 2, 3), dp.zeros(1, 1, 2)), r"hidden size \(1, 2"),
        (lambda: nn.LSTM(3, 2)(dp.zeros(2, 2, 3), dp.zeros(1, 2, 2)), r"got \(1, 2, 2\)"),
        (lambda: rnn.pack_padded_sequence(dp.zeros(3, 2, 1), [2, 3]), "decreasing order"),
        (lambda: rnn.pack_padded_sequence(dp.zeros(3, 2, 1), [2]), "batch_size 2"),
        (lambda: rnn.pack_padded_sequence(dp.zeros(3, 2, 1), [2, 0]), "greater than 0"),
        (lambda: rnn.pack_padded_sequence(dp.zeros(3, 2, 1), [4, 1]), "at most the 3"),
    ):
        with pytest.raises(ValueError, match=text):
            make()
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        nn.LSTM(2, 3, dropout=0.5)


def test_packing_by_hand():
    rows = [dp.tensor([[1.0], [2.0], [3.0]]), dp.tensor([[4.0]]), dp.tensor([[5.0], [6.0]])]
    padded = rnn.pad_sequence(rows, batch_first=True, padding_value=9.0)
    assert padded.squeeze(2).tolist() == [[1, 2, 3], [4, 9, 9], [5, 6, 9]]
    left = rnn.pad_sequence(rows, padding_side="left").squeeze(2).tolist()
    assert left == [[1, 0, 0], [2, 0, 5], [3, 4, 6]]
    packed = rnn.pack_sequence(rows, enforce_sorted=False)
    assert packed.data.squeeze(1).tolist() == [1, 5, 4, 2, 6, 3]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices.tolist() == packed.unsorted_indices.tolist() == [0, 2, 1]
    for a, b in zip(rnn.unpack_sequence(packed), rows, strict=True):
        close(a, b)
    same, lengths = rnn.pad_packed_sequence(packed, total_length=4)
    assert same.shape == (4, 3, 1) and lengths.tolist() == [3, 1, 2]
    with pytest.raises(ShapeError, match="total_length"):
        rnn.pad_packed_sequence(packed, total_length=2)
    assert packed.to("float64").data.dtype == np.float64


class Reader(nn.Module):
    """Texts of unequal lengths, 0 being padding, to classes."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 6, padding_idx=0)
        self.layers = nn.LSTM(6, 5, 2, batch_first=True, dropout=0.5, bidirectional=True)
        self.top = nn.Linear(20, 4)

    def forward(self, text):
        lengths = (text.numpy() != 0).sum(1)
        packed = rnn.pack_padded_sequence(self.table(text), lengths, True, enforce_sorted=False)
        _, (h, _) = self.layers(packed)
        return self.top(h.transpose(0, 1).reshape(len(text), 20))


def texts(rows=7):
    random = np.random.default_rng(2)
    text = random.integers(1, 11, (rows, 5)) * (np.arange(5) < random.integers(1, 6, (rows, 1)))
    return dp.tensor(text), dp.tensor(random.integers(0, 4, rows))


def test_dropout_between_layers_does_not_depend_on_the_split():
    found = []
    for replicas in (1, 3):
        dp.manual_seed(3)
        model = Reader().double()
        train = scheduler(model, devices=replicas)
        found.append([float(train(*texts())) for _ in range(3)])
    close(found[0], found[1], 1e-10)
    dp.manual_seed(3)
    model = Reader().eval()
    close(model(texts()[0]), model(texts()[0]))


@pytest.mark.parametrize("kind", ["tanh", "relu", "gru", "lstm"])
def test_rows_do_not_depend_on_how_many_there_are(kind):
    """In bytes: replicas may have any number of sequences."""
    make, options = KINDS[kind]
    dp.manual_seed(0)
    layer = make(5, 37, batch_first=True, **options)
    x = np.random.default_rng(0).standard_normal((33, 6, 5)).astype("float32")
    whole = layer(dp.tensor(x))[0].detach().numpy()
    for start, stop in ((0, 1), (2, 9), (12, 33)):
        part = layer(dp.tensor(x[start:stop]))[0].detach().numpy()
        assert part.tobytes() == whole[start:stop].tobytes()
