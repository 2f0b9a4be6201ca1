# `make` lists the targets. The first target that needs it creates the environment in .venv.

BASE_PYTHON ?= $(shell command -v python3.11 || echo python3)
# Where torch is taken from; empty: from where pip takes everything (docs/install.md).
TORCH_INDEX ?=
PYTHON := .venv/bin/python
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo compile dataset train model judge evaluate compare compare-networks compare-quick adapt improve tune streaming-bench test test-fast bench kernels-bench wafer-model kernels-compare stencil-bench quality fuzz soak lint format clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-15s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP)  ## create .venv with Python 3.11 and install everything into it; TORCH_INDEX=... names an index of CPU builds of torch (docs/install.md)

# torch comes first and alone: resolved together with the rest, pip may fetch CUDA packages.
$(STAMP): pyproject.toml .ci/constraints.txt
	@$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
		echo "error: '$(BASE_PYTHON)' is not Python 3.11, the last that has wheels of dgl;" \
			"install it, or name it: make install BASE_PYTHON=..." >&2; exit 2; }
	$(BASE_PYTHON) -m venv .venv
	$(if $(TORCH_INDEX),PIP_INDEX_URL='$(TORCH_INDEX)') $(PYTHON) -m pip install torch==2.13.0
	$(PYTHON) -m pip install -c .ci/constraints.txt -e '.[all,dev]'
	@echo "compiling what the demo needs on two cores, about a minute"
	$(PYTHON) -m placer.warm_up & first=$$!; $(PYTHON) -m costmodel.warm_up && wait $$first
	@touch $@

demo: $(STAMP)  ## everything at small size: simulate, judge the model in the box, search with it, compile a PyTorch network, train a toy; ends with data/demo/index.html
	rm -rf data/demo
	@echo "1/6  simulates an attention block that is placed at random: most of its time is congestion, so placement matters"
	$(PYTHON) -m placer.simulate workload=mha fabric=small placement=random seed=0 output=data/demo/simulate
	@echo "2/6  simulates 320 placements of 20 random netlists on a fabric that no model has seen: the labels of the next step"
	$(PYTHON) -m costmodel.dataset fabric=small_v2 size=demo output=data/demo/dataset
	@echo "3/6  asks rules, boosting and the model in the box about them: whose ranks and figures are right?"
	OMP_NUM_THREADS=1 $(PYTHON) -m costmodel.judge tests=[data/demo/dataset] cache=data/demo/encoded output=data/demo/judge
	@echo "4/6  places an FFN and an attention block by each of them in the same time, everything counted: what is the model worth?"
	$(PYTHON) -m costmodel.compare fabric=small_v2 unseen.families=[ffn,mha] unseen.netlists=2 unseen.exclude=[data/demo/dataset] models.names=[] \
		methods=[random,heuristic,pool,shipped,simulator_1x] limit=simulator_1x seconds=3 seeds=2 output=data/demo/compare
	@echo "5/6  imports a network as you may bring it, plain PyTorch, and compiles it: cuts, layouts and placements, asked of the model"
	$(PYTHON) -m placer.compile model=data.inputs.networks.encoder:Encoder input_shape=[1,32,64] fabric=small \
		cost=learned time_limit=20 output=data/demo/network
	@echo "6/6  trains a toy on the labels of the second step, to show how: it is no match for the model in the box"
	$(PYTHON) -m costmodel.train trainer=demo student.steps=0 data=data/demo/dataset cache=data/demo/encoded \
		output=data/demo/model
	$(PYTHON) -m costmodel.demo_report folder=data/demo

compile: $(STAMP)  ## compile a whole network in a set time; ARGS="workload=bert_large workload.layers=1 time_limit=120 cost=rules|learned|simulator ..." (conf/compile.yaml)
	$(PYTHON) -m placer.compile $(ARGS)

test: $(STAMP)  ## run all tests on two cores
	$(PYTHON) -m pytest -n 2 --dist worksteal

test-fast: $(STAMP)  ## run the tests that take no more than seconds
	$(PYTHON) -m pytest -n 2 --dist worksteal -m "not slow"

dataset: $(STAMP)  ## make a dataset; ARGS="size=demo|default|full|transfer seed=0 ..." (conf/dataset.yaml)
	$(PYTHON) -m costmodel.dataset $(ARGS)

train: $(STAMP)  ## train a model; ARGS="model=flow|guha|mlp split=graph fold=0 ..." (conf/train.yaml)
	$(PYTHON) -m costmodel.train $(ARGS)

model: data/model/flow.pt  ## train the shared model anew, from its datasets on: hours, resumable; data/model/flow.pt (python -m costmodel.ship puts it into the box)

data/dataset_foundation/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.dataset size=foundation

data/dataset_workloads/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.dataset size=workloads seed=3

data/dataset_plans/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.dataset size=plans short_labels=true seed=7

BOX := default foundation workloads plans
data/dataset_box/splits.json: | $(BOX:%=data/dataset_%/splits.json)
	$(PYTHON) -m costmodel.join

data/model/flow.pt: | data/dataset_box/splits.json
	$(PYTHON) -m costmodel.train trainer=foundation model.rules=true model.trust=true loss.margin=0.05 student.netlists=100 student.steps=1500 \
		data=data/dataset_box output=data/model

data/dataset_default/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.dataset

data/model_small/flow.pt: | data/dataset_default/splits.json
	$(PYTHON) -m costmodel.train output=data/model_small

data/test_%/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.dataset fabric=$* size=transfer seed=5 output=data/test_$*

data/test_held_out/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.dataset size=held_out size.netlists_per_family=6 output=data/test_held_out

data/test_published/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.dataset fabric=large size=published short_labels=true size.netlists_per_family=2 output=data/test_published

data/test_plans/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.dataset size=plans short_labels=true seed=8 size.netlists_per_family=12 output=data/test_plans

TESTS := small small_v2 plasticine held_out published plans
judge: $(TESTS:%=data/test_%/splits.json)  ## judge the model in the box on fabrics and netlists that it has never seen; ARGS="exclude=[data/dataset_box] ..." leaves out what it has learned from, after make model (conf/judge.yaml)
	$(PYTHON) -m costmodel.judge $(ARGS)

data/model_guha/guha.pt: | data/dataset_default/splits.json
	$(PYTHON) -m costmodel.train model=guha output=data/model_guha

data/improve/model.pt: | data/model_small/flow.pt
	$(PYTHON) -m costmodel.improve

data/dataset_sections/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.dataset fabric=large size=sections families=[section] seed=3

data/model_large/tuned_100.pt: | data/model_small/flow.pt data/dataset_sections/splits.json
	$(PYTHON) -m costmodel.adapt model_file=data/model_small/flow.pt data=data/dataset_sections tuned=[1.0] scratch=[] rules=true seeds=[0] output=data/model_large

data/model_guha_large/tuned_100.pt: | data/model_guha/guha.pt data/dataset_sections/splits.json
	$(PYTHON) -m costmodel.adapt data=data/dataset_sections model_file=data/model_guha/guha.pt tuned=[1.0] scratch=[] seeds=[0] output=data/model_guha_large

data/dataset_v2/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.dataset fabric=small_v2 seed=2 output=data/dataset_v2

evaluate: $(STAMP)  ## compare methods on unseen decisions; ARGS="methods=[...] ablations=[]" (conf/evaluate.yaml)
	$(PYTHON) -m costmodel.evaluate $(ARGS)

compare: data/model_small/flow.pt data/model_guha/guha.pt data/improve/model.pt data/model_large/tuned_100.pt data/model_guha_large/tuned_100.pt  ## place unseen netlists and real models in equal time by different cost models; ARGS="seconds=5 ..." (conf/compare.yaml)
	$(PYTHON) -m costmodel.compare $(ARGS)

compare-networks: $(STAMP)  ## compile whole networks in equal time by different methods, hours; goes on where it was cut off; ARGS="seconds=120 seeds=[0] ..." (conf/compiled.yaml)
	$(PYTHON) -m placer.study.compiled $(ARGS)

compare-quick: $(STAMP)  ## the same with the model in the box, four netlists and a few seconds: minutes; ARGS="seconds=5 ..."
	$(PYTHON) -m costmodel.compare unseen.netlists=1 unseen.exclude=[] models.names=[] \
		methods=[random,heuristic,finalists,pool,shipped,simulator_1x] limit=simulator_1x seconds=2 seeds=2 output=data/compare_quick $(ARGS)

adapt: data/dataset_v2/splits.json  ## the model in the box learns a fabric, here small_v2, from few labels, then places there; ARGS="seeds=[0] ..." (conf/adapt.yaml)
	$(PYTHON) -m costmodel.adapt $(ARGS)
	$(PYTHON) -m costmodel.compare fabric=small_v2 unseen.exclude=[data/dataset_v2] models.names=[] methods=[heuristic,old,tuned_10,retrained,simulator_1x] limit=simulator_1x output=data/compare_v2

improve: data/model_small/flow.pt  ## active learning: search with the model, simulate what it likes, learn from it; ARGS="rounds=3 ..." (conf/improve.yaml)
	$(PYTHON) -m costmodel.improve $(ARGS)

streaming-bench: $(STAMP)  ## map programs to a CGRA with every mapper, about an hour; ARGS="graphs=[FOLDER] ..." (conf/streaming_bench.yaml)
	$(PYTHON) -m placer.streaming.bench $(ARGS)

tune: $(STAMP)  ## search for better settings of training; ARGS="search.trials=20 ..." (conf/tune.yaml)
	$(PYTHON) -m costmodel.tune $(ARGS)

bench: $(STAMP)  ## measure the speed of the simulator, the placer, the encoding and the learned model
	$(PYTHON) -m placer.bench
	$(PYTHON) -m costmodel.bench

stencil-bench: $(STAMP)  ## score the stencil mapper on the contest's inputs, about an hour; ARGS="time_limit=60 inputs=[sphere]"
	$(PYTHON) -m placer.stencil.bench $(ARGS)

kernels-bench: $(STAMP)  ## kernel mapper: engines on public and generated graphs against published figures; ARGS="time_limit=20 ..."
	$(PYTHON) -m placer.kernels.bench $(ARGS)

data/wafer_dataset/splits.json: | $(STAMP)
	$(PYTHON) -m costmodel.wafer.build

data/wafer_model/flow.pt: | data/wafer_dataset/splits.json
	$(PYTHON) -m costmodel.train data=data/wafer_dataset cache=data/wafer_encoded output=data/wafer_model

wafer-model: data/wafer_model/flow.pt  ## the learned cost of the kernel mapper: dataset of mappings, data/wafer_model/flow.pt

kernels-compare: data/wafer_dataset/splits.json  ## kernel mapper: layouts by contest score, learned cost and truth model on unseen graphs; ARGS="seconds=10 ..." are for the comparison (conf/wafer_compare.yaml), not for making the models
	$(PYTHON) -m costmodel.wafer.evaluate
	$(PYTHON) -m costmodel.wafer.compare $(ARGS)

quality: $(STAMP)  ## measure short figures of quality and hold them against docs/results/history.json; ARGS="update=true" changes it on purpose
	$(PYTHON) -m costmodel.quality
	$(PYTHON) -m placer.history measured=[data/quality/figures.json] $(ARGS)

fuzz: $(STAMP)  ## damage files and draw cases at random, count what goes wrong; ARGS="minutes=10 seed=0 only=onnx" (tests/fuzz.py)
	$(PYTHON) -m tests.fuzz $(ARGS)

soak: $(STAMP)  ## dataset, training and placing side by side while workers die, a node is lost, the disk fills; ARGS="minutes=30" (tests/soak.py)
	$(PYTHON) -m tests.soak $(ARGS)

lint: $(STAMP)  ## check style, format and types
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy

format: $(STAMP)  ## format the code and fix what can be fixed
	$(PYTHON) -m ruff format
	$(PYTHON) -m ruff check --fix

clean:  ## remove caches; keep .venv and data
	rm -rf .hypothesis .benchmarks .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find placer costmodel tests -type d -name __pycache__ -prune -exec rm -rf {} +
