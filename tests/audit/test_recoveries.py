"""Which `try` of a job's code trains on after an exception, as its text shows."""

from pathlib import Path
from textwrap import dedent

import pytest

from chaos.audit.answer import describe_coverage
from chaos.run.recoveries import find_recovery_lines
from tests.audit.backend import FakeBackend, audit_of

TRAIN = """
def train(model, optimizer, data):
    for batch in data:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()


"""

# Each is put below `train`; the line that is marked is the one to be told.
RECOVERS = {
    "a loop of tries": """
        for attempt in range(3):
            try:
                train(model, optimizer, data)
                break
            except RuntimeError as error:  # told
                if attempt == 2:
                    raise
                print(error)
        """,
    "a loop without an end": """
        while True:
            try:
                train(model, optimizer, data)
            except Exception:  # told
                restore(model)
                continue
            else:
                break
        """,
    "the handler trains again": """
        def main():
            try:
                train(model, optimizer, data)
            except (ConnectionError, RuntimeError):  # told
                model.load_state_dict(torch.load("model.pt"))
                train(model, optimizer, data)

        main()
        """,
    "a function that is tried in a loop": """
        def is_trained():
            try:
                train(model, optimizer, data)
            except Exception as error:  # told
                print(error)
                return False
            return True

        while not is_trained():
            time.sleep(1)
        """,
    "a method of an object": """
        class Trainer:
            def train(self):
                self.epoch()

            def epoch(self):
                for batch in data:
                    self.fabric.backward(self.model(batch))
                    self.adam.step()

        trainer = Trainer()
        for _ in range(2):
            try:
                trainer.train()
                break
            except:  # told
                trainer.rewind()
        """,
    "a single step, with a way back": """
        step = 0
        while step < 100:
            try:
                model(data[step]).backward()
                optimizer.step()
                step += 1
            except RuntimeError:  # told
                step = load_checkpoint(model, optimizer)
        """,
    "out of an inner loop, back to a load": """
        for attempt in range(4):
            step = load_checkpoint(model)
            while step < 100:
                try:
                    model(data[step]).backward()
                    optimizer.step()
                except RuntimeError:  # told
                    break
                step += 1
            else:
                break
        """,
}

RIGHT = {
    "Ctrl-C": """
        try:
            train(model, optimizer, data)
        except KeyboardInterrupt:
            print("stopped")
        """,
    "a load": """
        try:
            model.load_state_dict(torch.load("model.pt"))
        except FileNotFoundError:
            pass
        train(model, optimizer, data)
        """,
    "a finally": """
        for epoch in range(3):
            try:
                train(model, optimizer, data)
            finally:
                close()
        """,
    "saved and raised": """
        for epoch in range(3):
            try:
                train(model, optimizer, data)
            except Exception:
                torch.save(model.state_dict(), "model.pt")
                raise
        """,
    "saved and ended": """
        def end(code):
            torch.save(model.state_dict(), "model.pt")
            sys.exit(code)

        for epoch in range(3):
            try:
                train(model, optimizer, data)
            except RuntimeError:
                end(75)
        """,
    "suppressed": """
        for epoch in range(3):
            train(model, optimizer, data)
            with contextlib.suppress(FileNotFoundError):
                os.unlink("older.pt")
        """,
    "the end of the script": """
        def main():
            try:
                train(model, optimizer, data)
            except Exception as error:
                log(error)
                return 1
            return 0

        sys.exit(main())
        """,
    "a loop that is left": """
        for epoch in range(3):
            try:
                train(model, optimizer, data)
            except RuntimeError:
                break
        """,
    "a step that is left out": """
        for batch in DataLoader(data):
            try:
                model(batch).backward()
                optimizer.step()
            except torch.OutOfMemoryError:
                optimizer.zero_grad()
                continue
        """,
    "a profile": """
        for model in models:
            try:
                for _ in range(10):
                    model(data).sum().backward()
            except Exception as error:
                print(error)
        train(models[0], optimizer, data)
        """,
    "its own word for the end": """
        for fold in range(5):
            try:
                train(model, optimizer, data)
            except EarlyStopping:
                print("enough")
        """,
    "an environment that steps": """
        for episode in range(5):
            try:
                for action in range(3):
                    env.step(action)
            except RuntimeError:
                env.reset()
        train(model, optimizer, data)
        """,
    "torch's train": """
        class Trainer:
            def train(self):
                train(model, optimizer, data)

        for path in paths:
            try:
                model.train()
                for name in path:
                    read(name)
            except ValueError:
                continue
        Trainer().train()
        """,
    "Ray Train's own": """
        for attempt in range(3):
            try:
                TorchTrainer(train).fit()
                break
            except TrainingFailedError:
                print("once more")
        """,
    "a function that nobody calls": """
        def train_again():
            while True:
                try:
                    train(model, optimizer, data)
                except RuntimeError:
                    continue

        train(model, optimizer, data)
        """,
    "no Python": "def (",
}


@pytest.mark.parametrize("name", RECOVERS)
def test_a_handler_after_which_training_goes_on_is_told_by_its_line(name: str) -> None:
    text = TRAIN + dedent(RECOVERS[name])
    (line,) = (n for n, each in enumerate(text.splitlines(), 1) if "# told" in each)

    assert find_recovery_lines(text) == (line,)


@pytest.mark.parametrize("name", RIGHT)
def test_a_handler_of_something_else_is_left_out(name: str) -> None:
    assert find_recovery_lines(TRAIN + dedent(RIGHT[name])) == ()


def test_an_audit_of_a_job_with_such_a_line_is_no_pass_and_names_it(tmp_path: Path) -> None:
    audit = audit_of(tmp_path, FakeBackend())
    text = TRAIN + dedent(RECOVERS["a loop of tries"])
    Path(audit.plan.file).write_text(text)
    (line,) = find_recovery_lines(text)

    card = audit.run()

    assert (card.word, card.exit_code) == ("inconclusive", 2)
    assert card.sentence == (
        f"inconclusive: {tmp_path}/train.py:{line} goes on after an exception in training: not "
        f"tried (after kills: {describe_coverage(card)})"
    )


def test_the_same_audit_passes_without_it(tmp_path: Path) -> None:
    assert audit_of(tmp_path, FakeBackend()).run().word == "pass"
