"""Runs in MLflow: parameters, metrics and files of trainings, placements, comparisons and evaluations."""

from placer.base.tracking.mlflow_run import (
    NOWHERE,
    Tracker,
    TrackingConfig,
    open_tracker,
    tracking_failures,
    use_settings,
)
