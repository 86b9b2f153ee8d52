"""What experiments on batch sizes share: sizes that are refused, and what is drawn."""

import numpy as np
import pytest

from theorylab.experiments.checks import refuse_batch_sizes
from theorylab.experiments.drawing import panels
from theorylab.experiments.features.agop._batch_sizes import by_batch_size


def test_sizes_increase_up_to_the_training_set():
    refuse_batch_sizes((1, 5, 20), 20)
    refuse_batch_sizes((5, 20), 20, exactly_two=True)
    for sizes in ((5,), (5, 5), (20, 5), (0, 5)):
        with pytest.raises(ValueError, match="must be two or more and increasing"):
            refuse_batch_sizes(sizes, 20)
    with pytest.raises(ValueError, match=r"must be two and increasing, got \(1, 5, 20\)"):
        refuse_batch_sizes((1, 5, 20), 20, exactly_two=True)
    with pytest.raises(ValueError, match="at most 19, got 20"):
        refuse_batch_sizes((5, 20), 19)


def test_every_rate_has_its_seeds_and_its_mean_and_only_sizes_are_labelled():
    """Oracle: NumPy's mean; 3 lines of seeds and one of means for each of 2 rates."""
    sizes, values = np.array([5, 50]), np.arange(12.0).reshape(2, 2, 3)
    _, (axis,) = panels("test loss")
    by_batch_size([axis], sizes, [values], ["small", "large"])
    lines = axis.get_lines()
    assert len(lines) == 2 * (3 + 1)
    np.testing.assert_allclose(np.asarray(lines[3].get_ydata(), float), values[0].mean(axis=1))
    assert [text.get_text() for text in axis.get_xticklabels()] == ["5", "50"]
    assert len(axis.get_xticks(minor=True)) == 0
