"""Train a small network on handwritten digits with TensorFlow, data-parallel, on Ray Train.

With the Keras that knows MultiWorkerMirroredStrategy: version 3 does not (keras-team/keras#20585).
"""

import argparse
import os
import tempfile

import ray.train
import tensorflow as tf
import tf_keras as keras
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.tensorflow import TensorflowTrainer
from sklearn.datasets import load_digits


def load_data(batch_size, seed):
    digits = load_digits()
    images = (digits.images[:1792] / 16.0).astype("float32")
    labels = digits.target[:1792].astype("int32")
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = dataset.shuffle(len(images), seed=seed).batch(batch_size)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def build_model(lr):
    model = keras.Sequential(
        [
            keras.layers.Flatten(input_shape=(8, 8)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=lr),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.optimizer.build(model.trainable_variables)  # now, so that it is restored now
    return model


def train_loop(config):
    keras.utils.set_random_seed(config["seed"])
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = build_model(config["lr"])
        epoch = tf.Variable(0, dtype=tf.int64)  # the next to train
        held = {"layers": model.layers} if config["weights_only"] else {"model": model}
        state = tf.train.Checkpoint(epoch=epoch, **held)  # a model has its optimizer with it
        checkpoint = ray.train.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as directory:
                state.read(os.path.join(directory, "state")).assert_existing_objects_matched()

    while epoch.numpy() < config["epochs"]:
        dataset = load_data(config["batch_size"], seed=config["seed"] + epoch.numpy())
        history = model.fit(dataset, verbose=0)
        epoch.assign_add(1)
        metrics = {name: values[-1] for name, values in history.history.items()}
        with tempfile.TemporaryDirectory() as directory:
            # Every worker saves, as reading a variable may take all of them; one copy is kept.
            state.write(os.path.join(directory, "state"))
            is_chief = ray.train.get_context().get_world_rank() == 0
            checkpoint = Checkpoint.from_directory(directory) if is_chief else None
            ray.train.report(metrics, checkpoint=checkpoint)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=128, help="of all workers together")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--weights-only", action="store_true", help="save the layers, and no optimizer"
    )
    args = parser.parse_args()

    trainer = TensorflowTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(
            name="digits-tensorflow",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
