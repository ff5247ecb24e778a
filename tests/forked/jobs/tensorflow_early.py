"""A job that looks at its data with TensorFlow before it trains."""

import ray.train
import tensorflow as tf
from ray.train.tensorflow import TensorflowTrainer


def train_loop():
    ray.train.report({"mean": float(tf.reduce_mean(tf.random.normal((300, 300))))})


print(tf.reduce_sum(tf.ones((300, 300))))
TensorflowTrainer(train_loop, scaling_config=ray.train.ScalingConfig(num_workers=1)).fit()
