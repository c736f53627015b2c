"""Trains scikit-learn's own network of the same shape as digits-mlp: digits_sklearn.py FILE"""

import sys

import joblib
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

digits = load_digits()
model = MLPClassifier((32,), random_state=7, max_iter=100).fit(digits.data / 16.0, digits.target)
joblib.dump(model, sys.argv[1])
