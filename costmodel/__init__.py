"""Cost models that are learned from measurements: dataset, networks, training, inference."""

import placer as _placer
