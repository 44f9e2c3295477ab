"""Texts as data: every token judged once, nothing on two sides, documents kept apart."""

import random
from collections import Counter

import pytest
import torch

pytest.importorskip("lightning")

from text.data import StandardLibrary, TextFiles
from text.data.needles import ALPHABET, KEYS, VALUES, Needles, draw_asked, draw_training
from text.data.splitting import Document, split_documents
from text.data.windows import Corpus, RandomWindows, Windows, collate, collate_packed, spans_of
from text.vocabulary import START, Bytes, Characters, alphabet_of, decode


def corpus(total, *starts):
    return Corpus(torch.arange(total), torch.tensor([0, *starts]))


def targets(windows):
    """What is counted: each token that is to be foreseen, with the tokens seen before it."""
    for window in windows:
        for row in window.counted.nonzero()[:, 0].tolist():
            assert window.tokens[row] == window.start + row
            yield int(window.tokens[row + 1]), row + 1


@pytest.mark.parametrize("stride", [1, 3, 7, None])
@pytest.mark.parametrize("total", [8, 9, 15, 29, 30, 64])
def test_every_token_but_the_first_is_counted_once(total, stride):
    windows = Windows(corpus(total), 7, [(0, total)], stride)
    found = list(targets(windows[k] for k in range(len(windows))))
    assert sorted(target for target, _ in found) == list(range(1, total))
    least = 7 - (stride or 7)
    assert all(seen > min(target - 1, least) for target, seen in found)


@pytest.mark.parametrize(
    ("total", "tokens"), [(1000, 256), (1000, 64), (130, 128), (130, 129), (999, None)]
)
def test_spans_hold_the_same_tokens_for_every_length(total, tokens):
    spans = spans_of(total, tokens, 64)
    assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:], strict=False)) or (
        len(spans) == 1
    )
    assert spans[0][0] == 0 and spans[-1][1] <= total
    counted = []
    for length in (16, 24, 64):
        windows = Windows(corpus(total), length, spans)
        counted.append(sorted(t for t, _ in targets(windows[k] for k in range(len(windows)))))
    assert counted[0] == counted[1] == counted[2]
    assert len(set(counted[0])) == len(counted[0])
    assert len(counted[0]) == (total - 1 if tokens in (None, 129) else tokens // 64 * 64)


def test_spans_are_spread_over_the_whole_text():
    spans = spans_of(10_001, 400, 100)
    assert [begin for begin, _ in spans] == [0, 3300, 6600, 9900]


def test_random_windows_reach_both_ends():
    windows = RandomWindows(corpus(12), 7, 200)
    starts = Counter(windows[k].start for k in range(200))
    assert set(starts) == {0, 1, 2, 3, 4}
    assert windows[0].counted.all() and len(windows[0].tokens) == 8


def test_processes_that_draw_alike_read_other_windows():
    """Two of them have the same seed, and indices of their own."""
    windows = RandomWindows(corpus(5000), 7, 200)
    batches = Needles(length=20).train_dataloader().dataset
    drawn = []
    for index in (0, 1, 2):
        torch.manual_seed(0)
        drawn.append((windows[index].start, batches[index].tokens))
    assert len({start for start, _ in drawn}) == 3
    assert not torch.equal(drawn[0][1], drawn[1][1])


def test_too_little_text_and_too_wide_a_stride_are_refused():
    with pytest.raises(ValueError, match="more tokens than a window of 7, got 7"):
        RandomWindows(corpus(7), 7, 1)
    with pytest.raises(ValueError, match="more tokens than a window of 7, got 7"):
        Windows(corpus(7), 7, [(0, 7)])
    with pytest.raises(ValueError, match="stride must be from 1 to length=7, got stride=8"):
        Windows(corpus(20), 7, [(0, 20)], 8)


def test_packed_documents_count_from_zero_each():
    windows = Windows(corpus(21, 3, 4, 13, 20), 10, [(0, 21)])
    batch = collate_packed([windows[0], windows[1]])
    assert batch.positions[0, :, 0].tolist() == [0, 1, 2, 0, 0, 1, 2, 3, 4, 5]
    assert batch.segments[0].tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2, 2]
    # The second window begins in the middle of a document, and none begins at its last target.
    assert batch.positions[1, :, 0].tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 6]
    assert batch.segments[1].tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    plain = collate([windows[0], windows[1]])
    assert plain.segments is None and plain.positions[:, 0].tolist() == list(range(10))
    assert torch.equal(plain.tokens, batch.tokens) and plain.starts.tolist() == [0, 10]


def test_whole_groups_go_to_one_side_always_the_same():
    rng = random.Random(1)
    documents = [
        Document(f"g{k % 40}", f"{k} " * rng.randint(20, 60)) for k in range(200)
    ]  # five of each group
    split = split_documents(documents)
    side = {text: k for k, texts in enumerate(split) for text in texts}
    assert len(side) == 200
    for group in {document.group for document in documents}:
        assert len({side[text] for name, text in documents if name == group}) == 1
    shares = [sum(map(len, texts)) / sum(map(len, side)) for texts in split]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.03)
    shuffled = split_documents(rng.sample(documents, 200))
    assert [set(texts) for texts in shuffled] == [set(texts) for texts in split]


def test_copies_are_taken_once():
    documents = [Document(f"g{k}", f"text {k % 30} " * 9) for k in range(60)]
    split = split_documents(documents)
    texts = [text for side in split for text in side]
    assert len(texts) == len(set(texts)) == 30


def test_a_large_group_trains():
    documents = [Document("big", "x" * 5000), *(Document(f"g{k}", f"{k}" * 50) for k in range(60))]
    assert "x" * 5000 in split_documents(documents).train


def test_too_few_groups_are_cut_into_blocks():
    text = "".join(chr(0x4E00 + k) for k in range(100))
    split = split_documents([Document("one", text)])
    assert [*split] == [[text[:80]], [text[80:90]], [text[90:]]]
    with pytest.raises(ValueError, match="must be a text"):
        split_documents([Document("none", "")])


def test_vocabularies_give_back_what_they_were_given():
    text = "naïve: 7 €\n😀"
    for vocabulary in (Bytes(), Characters(alphabet_of(text))):
        tokens = vocabulary.encode(text)
        assert decode(vocabulary, tokens) == text
        assert int(tokens.max()) < vocabulary.size == len(vocabulary.widths)
        assert sum(vocabulary.widths[k] for k in tokens.tolist()) == len(text.encode())
    few = Characters(alphabet_of("abc"))
    assert decode(few, few.encode("cab!")) == "cab\ufffd"
    with pytest.raises(ValueError, match="once each, in order"):
        Characters("cba")


def test_the_standard_library_keeps_packages_whole_and_leaves_tests_out():
    data = StandardLibrary(vocabulary="characters")
    data.setup("fit")
    sides = [Counter(), Counter(), Counter()]
    for side, texts in zip(sides, data.split, strict=True):
        assert sum(map(len, texts)) > 300_000
        side.update(texts)
    assert all(count == 1 for side in sides for count in side.values())
    assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])
    assert {"\0", "\ufffd", "e"} < set(data.alphabet)
    assert not any("class TestCase(unittest.TestCase" in text for text in data.split.train)


def test_a_folder_is_read_and_what_is_no_text_is_left_out(tmp_path, capsys):
    for k in range(40):
        (tmp_path / f"{k}.txt").write_text(f"file {k}\r\n" * 40)
    (tmp_path / "picture.png").write_bytes(bytes(range(256)))
    (tmp_path / "other.md").write_text("# other")
    data = TextFiles(str(tmp_path), length=16, vocabulary="characters")
    data.setup("fit")
    texts = [text for side in data.split for text in side]
    assert len(texts) == 41 and not any("\r" in text for text in texts)
    assert "1 files are no text" in capsys.readouterr().out
    train = data.corpus("train")
    assert decode(data.vocabulary, train.tokens) == "".join(START + t for t in data.split.train)
    assert (train.tokens[train.starts] == data.alphabet.index(START)).all()
    only = TextFiles(str(tmp_path), pattern="*.md").load()
    assert "".join(sum(only, [])) == "# other"


def test_characters_unseen_in_training_are_told(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("ab" * 50 + "zz")
    data = TextFiles(str(tmp_path / "a.txt"), length=4, vocabulary="characters")
    tokens = data.corpus("test").tokens
    assert decode(data.vocabulary, tokens[-2:]) == "\ufffd\ufffd"
    assert "test: 2 of 10 characters are not in the training text" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"length": 0}, "length must be at least 1, got length=0"),
        ({"test_length": [8, 8]}, "must list different lengths"),
        ({"test_length": [8, 0]}, "test_length must be at least 1"),
        ({"vocabulary": "words"}, "vocabulary must be one of"),
        ({"eval_tokens": 0}, "eval_tokens must be at least 1"),
    ],
)
def test_wrong_numbers_are_refused(words, said):
    with pytest.raises(ValueError, match=said):
        TextFiles("x", **words)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(ValueError, match="text file or a folder"):
        TextFiles(str(tmp_path / "nowhere")).load()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="text in UTF-8"):
        TextFiles(str(tmp_path / "bytes")).load()


def test_real_text_is_read_whole(data_dir):
    data = TextFiles(str(data_dir / "tinyshakespeare.txt"), length=64, vocabulary="characters")
    data.setup("fit")
    text = "".join(sum(data.split, []))
    assert len(text) > 1_100_000 and text.startswith("First Citizen:\n")
    assert len(data.alphabet) == 65 + 2


def words_of(tokens):
    return "".join(ALPHABET[k] for k in tokens)


@pytest.mark.parametrize(("keys", "length"), [(1, 4), (3, 12), (3, 48), (8, 32), (8, 48)])
def test_a_digit_counts_where_its_key_has_stood_before_and_is_the_same(keys, length):
    batch = draw_training(20, length, keys, torch.Generator().manual_seed(0))
    assert batch.tokens.shape == (20, length + 1) and batch.counted.shape == (20, length)
    for tokens, counted in zip(batch.tokens.tolist(), batch.counted.tolist(), strict=True):
        said = words_of(tokens)
        pairs = [(c, said[k + 1]) for k, c in enumerate(said) if c in KEYS]
        assert 2 * len(pairs) >= 3 * length // 4 - 1 and {v for _, v in pairs} <= set(VALUES)
        assert len(set(pairs)) == len(dict(pairs)) <= keys < len(pairs)
        again = [k for k, c in enumerate(said) if c in KEYS and c in said[:k]]
        assert [k for k, yes in enumerate(counted) if yes] == again != []


def test_keys_come_in_everywhere():
    """A key is first said early or late, and asked for soon or long after, in all combinations."""
    batch = draw_training(2000, 60, 4, torch.Generator().manual_seed(0))
    seen = Counter()
    for tokens in batch.tokens.tolist():
        said = words_of(tokens)
        for name in set(said) & set(KEYS):
            first, *later = (k for k, c in enumerate(said) if c == name)
            seen.update((first // 20, k // 20) for k in later)
    assert set(seen) >= {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)}
    assert min(seen[first, first] for first in range(3)) > 0.03 * seen.total()


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("depth", [0.0, 0.3, 1.0])
def test_the_key_asked_for_lies_at_its_depth(keys, depth):
    asked = draw_asked(50, 40, keys, depth, torch.Generator().manual_seed(0))
    for tokens, answer in zip(asked.tokens.tolist(), asked.answers.tolist(), strict=True):
        said = words_of(tokens)
        assert said.index(said[-1]) == round(depth * 37) and len(said) == 40
        assert said[said.index(said[-1]) + 1] == ALPHABET[answer]
        assert sum(c in KEYS for c in said) == keys + 1
        assert all(said[k + 1] in VALUES for k, c in enumerate(said[:-1]) if c in KEYS)


def test_digits_that_are_no_keys_stand_among_the_letters():
    """Else a key could be found as the only digit in sight, without any idea of order."""
    asked = draw_asked(200, 64, 1, 0.5, torch.Generator().manual_seed(0))
    others = [sum(c in VALUES for c in words_of(tokens)) - 1 for tokens in asked.tokens.tolist()]
    assert min(others) > 5 and sum(others) / 200 == pytest.approx(61 * 10 / 26, rel=0.05)


def test_needles_are_drawn_anew_for_training_and_the_same_for_tests():
    data = Needles(length=20, test_length=[20, 40], train_windows=64, eval_windows=10)
    first, second = (next(iter(data.train_dataloader())).tokens for _ in range(2))
    assert not torch.equal(first, second)
    for loader, length in zip(data.test_dataloader(), (20, 40), strict=True):
        once, again = ([batch.tokens for batch in loader] for _ in range(2))
        assert all(map(torch.equal, once, again)) and once[0].shape[1] == length + 1
    with pytest.raises(ValueError, match="at least 4 \\* keys = 32, got length=31"):
        Needles(length=31, keys=8)
