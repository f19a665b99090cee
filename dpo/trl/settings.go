package trl

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"popri/configs"
	"popri/dpo/preference"
	"popri/model/tensor"
)

// settings is job.yaml, which train.py reads.
type settings struct {
	Key           string         `yaml:"key,omitempty"` // hash of everything else
	Model         string         `yaml:"model"`         // folder
	DType         string         `yaml:"dtype"`         // of the base weights
	BatchPairs    int            `yaml:"batch_pairs"`
	MicroPairs    int            `yaml:"micro_pairs"` // pairs that a process computes at once, at most
	CheckPairs    int            `yaml:"check_pairs"` // the number of first pairs that are measured at the end
	LearningRates []number       `yaml:"learning_rates,flow"`
	Order         [][]int        `yaml:"order,flow"` // of the pairs in each epoch
	DPO           map[string]any `yaml:"dpo_config"`
}

// number is written so that PyYAML reads a number, which for it has a point before its exponent.
type number float64

// MarshalYAML implements [yaml.Marshaler].
func (x number) MarshalYAML() (any, error) {
	text := strconv.FormatFloat(float64(x), 'e', -1, 64)
	if digits, exponent, _ := strings.Cut(text, "e"); !strings.Contains(digits, ".") {
		text = digits + ".0e" + exponent
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: text}, nil
}

// dpoConfig has the arguments of TRL's DPOConfig that follow from a configuration, under TRL's names. compute is the
// type of the products.
func dpoConfig(c configs.Config, compute tensor.DType) map[string]any {
	d, o := c.DPO, preference.Optimizer(c.Optimizer)
	losses, weights := []string{d.Loss}, []number{1}
	if d.SFTWeight > 0 {
		losses, weights = append(losses, "sft"), append(weights, number(d.SFTWeight))
	}
	return map[string]any{
		"loss_type": losses, "loss_weights": weights, "beta": number(d.Beta),
		"label_smoothing": number(d.LabelSmoothing),
		"learning_rate":   number(c.Optimizer.LearningRate), "num_train_epochs": c.Optimizer.Epochs,
		"max_grad_norm": number(o.MaxNorm),
		"weight_decay":  number(o.WeightDecay), "adam_beta1": number(o.Beta1), "adam_beta2": number(o.Beta2),
		"adam_epsilon": number(o.Epsilon),
		"optim":        "adamw_torch", "gradient_checkpointing": c.Optimizer.GradientCheckpointing,
		"disable_dropout":          true,
		"precompute_ref_log_probs": true, "max_length": nil, "bf16": compute == tensor.BFloat16,
		"use_cpu": c.Model.Device == "cpu", "seed": int(c.Seed & 0x7fffffff), "save_strategy": "no",
		"eval_strategy": "no",
		"logging_steps": 1, "logging_nan_inf_filter": false, "report_to": "none", "disable_tqdm": true,
		"remove_unused_columns": false,
	}
}
