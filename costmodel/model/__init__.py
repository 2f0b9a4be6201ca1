"""A trained model and its file, where models lie, and labelled data as models read it."""

from costmodel.model.box import SHIPPED, put_into_box, shipped_file
from costmodel.model.labelled import (
    DataKind,
    Labelled,
    ManyFabrics,
    Prediction,
    Selection,
    constants_of,
    open_labelled,
    open_potentials,
    register_kind,
    split_validation,
)
from costmodel.model.location import log_model, model_file, open_model
from costmodel.model.model import BATCH_SIZE, Model, PotentialNetwork
