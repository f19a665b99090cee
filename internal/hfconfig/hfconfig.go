// Package hfconfig reads the config.json of Hugging Face checkpoints and ignores no field silently.
package hfconfig

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"popri/internal/exactjson"
	"popri/internal/quote"
)

// Fields that do not change the model's computation: bookkeeping, initialisation and training (dropout is never applied
// here), a program's choice between equal computations, and the defaults of its sampler.
var harmless = map[string]bool{}

func init() {
	for _, name := range strings.Fields(`
		architectures model_type dtype torch_dtype transformers_version name_or_path tokenizer_class
		initializer_range use_cache bos_token_id pad_token_id sep_token_id task_specific_params finetuning_task problem_type
		id2label label2id num_labels output_attentions output_hidden_states output_past return_dict torchscript
		use_bfloat16 tf_legacy_loss gradient_checkpointing language license attention_dropout attn_pdrop embd_pdrop resid_pdrop
		attention_probs_dropout_prob hidden_dropout_prob classifier_dropout
		max_length min_length do_sample temperature top_k top_p typical_p num_beams num_beam_groups num_return_sequences
		repetition_penalty length_penalty diversity_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size early_stopping
		is_llama_config auto_map transformers.js_config attn_implementation unsloth_fixed unsloth_version
		directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
		chunk_size_feed_forward output_scores return_dict_in_generate bad_words_ids prefix remove_invalid_values`) {
		harmless[name] = true
	}
}

// switches are further fields that change nothing where they are false or 0: then the model lacks the part that they stand for.
// Of any other field, false may be what changes the model, as with is_causal.
var switches = strings.Fields(`
	add_cross_attention attention_bias clip_qkv is_decoder is_encoder_decoder is_gated_act lm_head_bias mlp_bias
	num_experts num_local_experts output_router_logits qk_norm qkv_bias rope_interleaved reorder_and_upcast_attn router_aux_loss_coef
	scale_attn_by_inverse_layer_idx tie_encoder_decoder tie_word_embeddings use_bidirectional_attention use_dynamic_ntk
	pooling_mode_lasttoken pooling_mode_max_tokens pooling_mode_mean_sqrt_len_tokens pooling_mode_weightedmean_tokens
	use_logn_attn use_mrope use_parallel_residual use_qk_norm use_sliding_window`)

// accepted are the fields that the user declared irrelevant.
var accepted atomic.Pointer[[]string]

// Accept names unknown fields that [Decode] ignores, in the whole program: the user declares that they do not change
// the model's computation. It replaces the names of an earlier call.
func Accept(names ...string) {
	names = slices.Clone(names)
	accepted.Store(&names)
}

// Decode reads the fields that the struct into names by its json tags. Any other field must be bookkeeping (it begins
// with an underscore), harmless (also the listed ones), accepted by the user, empty, or a part of the model that is
// switched off. Otherwise it is refused by name, because ignoring it could change the model.
func Decode(raw []byte, into any, alsoHarmless ...string) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return quote.JSON(err)
	}
	all, err := exactjson.Fields(raw)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(into).Elem()) {
		known[f.Tag.Get("json")] = true
	}
	var refused, keys, names []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if known[name] || slices.Contains(alsoHarmless, name) || passes(name) || empty(all[name]) ||
			slices.Contains(switches, name) && Off(all[name]) {
			continue
		}
		refused = append(refused, quote.Raw(name)+": "+quote.Raw(all[name]))
		keys, names = append(keys, "--accept-key "+quote.Raw(name)), append(names, name)
	}
	unknown := &Unknown{known: maps.Clone(all)}
	maps.DeleteFunc(unknown.known, func(name string, _ json.RawMessage) bool { return slices.Contains(names, name) })
	switch len(refused) {
	case 0:
		return nil
	case 1:
		unknown.text = fmt.Sprintf("%s is not supported (if it does not change what the model computes, accept it with %s)",
			refused[0], keys[0])
	default:
		unknown.text = fmt.Sprintf("%s are not supported (those that do not change what the model computes are accepted with %s)",
			strings.Join(refused, ", "), strings.Join(keys, " "))
	}
	return unknown
}

// Unknown is the error of fields that [Decode] does not know.
type Unknown struct {
	text  string
	known map[string]json.RawMessage
}

func (u *Unknown) Error() string { return u.text }

// Rest returns the object without these fields, whose other problems a caller reports with them.
func (u *Unknown) Rest() []byte {
	raw, _ := json.Marshal(u.known) // they were read from JSON
	return raw
}

func passes(name string) bool {
	if harmless[name] || strings.HasPrefix(name, "_") || strings.HasPrefix(name, "summary_") {
		return true
	}
	names := accepted.Load()
	return names != nil && slices.Contains(*names, name)
}

// Off reports whether a value switches its field off: null, false, zero, or empty.
func Off(v json.RawMessage) bool {
	switch strings.TrimSpace(string(v)) {
	case "false", "0", "0.0":
		return true
	}
	return empty(v)
}

// empty reports whether a value says nothing, so that the field has its default.
func empty(v json.RawMessage) bool {
	switch strings.TrimSpace(string(v)) {
	case "null", "[]", "{}", `""`:
		return true
	}
	return false
}
