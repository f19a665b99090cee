package configs

// Model says which language model generates the samples.
type Model struct {
	// Path is "embedded" for the small GPT that comes with the program, or "trained" for a small GPT that is trained
	// on the public text alone and kept in the user's cache folder. "smollm2" is the model that make demo
	// MODEL=smollm2 fetches. Otherwise it is a Hugging Face folder (config.json, safetensors, tokenizer.json), or a
	// name on Hugging Face's hub that popri model get has fetched. Default "embedded"; "" is refused.
	Path string `yaml:"path"`
	// DType is the type in which the model computes: float32, or bfloat16, which is faster on some processors and
	// rounds more. Log-probabilities are float32 in both. Default auto: bfloat16 if its products are faster (AMX,
	// AVX-512 BF16 of other makers than Intel, a GPU from Ampere on), else float32.
	DType string `yaml:"dtype" oneof:"auto|float32|bfloat16"`
	// Weights is the type in which the generator's own weights are kept: float32, or "compute", the type in which the
	// model computes. "compute" holds the weights once: half of the memory in bfloat16, with weights that are rounded
	// to it, and no second copy for sampling, for which the adapters are added to the weights and the folder's weights
	// read again afterwards. For models whose float32 weights do not fit. The adapters are float32 in any case. Default
	// float32.
	Weights string `yaml:"weights" oneof:"float32|compute"`
	// Device is where the model computes: cpu, cuda (the first GPU that CUDA_VISIBLE_DEVICES shows; the program must be
	// built with a CUDA libtorch), or auto, the default: cuda if it is available, else cpu.
	Device string `yaml:"device" oneof:"auto|cpu|cuda"`
	// Threads is the number of threads of a tensor operation; 0, the default, uses one per processor. More threads than
	// processors wait for each other.
	Threads int `yaml:"threads" range:"[0, 1024]"`
}

// Generate says how samples are drawn in each round.
type Generate struct {
	// Engine is what draws samples: "local", this program; or "vllm:URL", a vLLM server with the model of model.path,
	// such as vllm:https://host:8000. Start the server with --enable-lora, a --max-lora-rank of lora.rank or more and
	// VLLM_ALLOW_RUNTIME_LORA_UPDATING=True. It must read the run's folder under the same path; VLLM_API_KEY in the
	// environment is its key. Each round's adapter is loaded under a new name and must show its effect on the first
	// prompts. Samples are stored, so a finished stage needs no server. A repeated run may draw other samples.
	// Default "local".
	Engine string `yaml:"engine"`
	// Weights is the type to which the sampling copy of the model is rounded. "compute" is the type in which the
	// model computes. "int8" is bytes, with one scale for each output of a projection and one for each token of its
	// input (W8A8); head and attention stay as they are. It draws faster and from a slightly different distribution.
	// It needs model.weights "float32", and a CPU with AVX-512 VNNI and BF16 and without AMX. Default "compute".
	Weights string `yaml:"weights" oneof:"compute|int8"`
	// Prompts is K, the number of prompts of a round. Default 200. More cost time in proportion. Under
	// scoring.release "rounds", fewer leave more noise in the scores: what the projection leaves grows as 1/√(K·J).
	Prompts int `yaml:"prompts" range:"[1, 2^30]"`
	// Samples is J, the number of samples of each prompt. The best one and the one of rank dpo.rejected_rank become a
	// pair. Default 10; below 2 there is no pair.
	Samples int `yaml:"samples" range:"[2, 2^16]"`
	// Examples is the number of public texts in a prompt. Default 2, which fits the embedded model's context; 0 leaves
	// the header alone. More leave less room for the sample.
	Examples int `yaml:"examples" range:"[0, 1000]"`
	// Quote says which texts the prompts of the rounds and of the synthetic set quote. "public" is all public texts,
	// as in the paper. "relevant" is the public texts most relevant to the clients (public_selection), which needs
	// scoring.release "once". "scored" is the tenth of all earlier rounds' samples with the highest noised scores,
	// and in round 1 "relevant" or "public" texts. Quoting samples costs no privacy, because their scores are already
	// charged; the texts become more like them and less varied. Default "relevant".
	Quote string `yaml:"quote" oneof:"public|relevant|scored"`
	// ByLabel makes labelled text: each prompt quotes public texts of one label alone, and the text written for it
	// gets that label. Public texts of the synthetic set keep their own. data.public then needs a column label. The
	// first text of a prompt is drawn from all that may be quoted. So labels have the proportions of the public text,
	// because the clients' are private. Default false; downstream.task "classification" needs true.
	ByLabel bool `yaml:"by_label"`
	// Kinds names kinds of text, such as "political speeches", for which the model is asked before round 1. "general"
	// is the list that comes with the program; otherwise it is a file of yours with one kind on each line. The
	// model's text of each kind is compared with the clients' release. The prompts of all rounds ask for the nearest
	// kinds, in {kind} of template_header, and round 1 quotes the text that was written. It costs no privacy: the
	// list must be public. It needs quote "scored" and scoring.release "once". Default "", which asks for no kind.
	Kinds string `yaml:"kinds"`
	// TemplateHeader is the prompt's first line, in which {label} stands for the prompt's label (by_label) and {kind}
	// for the kind of text that is asked for, or the word text where none is known; "", the default, leaves it out.
	TemplateHeader string `yaml:"template_header"`
	// Chat makes template_header a user's turn, which the model answers, by the chat template of its folder; a model
	// without one gets the header as it is. Default false, where a header for a chat model has the marks of the turns
	// itself.
	Chat bool `yaml:"chat"`
	// TemplateItem is the line before each text; {i} in it becomes the text's number, from 1. A sample ends where the
	// line occurs again. No empty line separates texts, and no text occurs twice in a prompt, as in the published code.
	// "", the default, puts one text on each line after the end-of-text token, as in the embedded model's training;
	// each is drawn from all, because with thousands of texts a repetition is rare.
	TemplateItem string `yaml:"template_item"`
	// Temperature divides the logits. Default 1, the model's own distribution. Lower values make the J samples alike,
	// so that their ranking carries little information; much higher values make them noise. Above 0.
	Temperature float64 `yaml:"temperature" range:"(0, 100]"`
	// TopP keeps the likeliest tokens up to this total probability. Default 1, all; above 0.
	TopP float64 `yaml:"top_p" range:"(0, 1]"`
	// MaxNewTokens is the largest length of a sample in tokens. Default 64; the time of a round is proportional to it.
	MaxNewTokens int `yaml:"max_new_tokens" range:"[1, 2^20]"`
	// MinNewTokens is the least length of a sample in tokens; end of text is not drawn before it. Default 8, because
	// shorter samples embed badly; 0 allows empty samples.
	MinNewTokens int `yaml:"min_new_tokens" range:"[0, 2^20]"`
	// CutSamples cuts samples to data.max_tokens before they are embedded and trained on, and puts an end-of-text token
	// behind every completion, wherever it was cut. The published code does both: it draws 85 tokens and keeps 64, and
	// TRL adds the token, which teaches the model to end there. Default false: max_new_tokens alone bounds samples, and
	// those alone that ended by themselves are trained on with the token.
	CutSamples bool `yaml:"cut_samples"`
	// BatchTokens is the number of tokens whose keys and values are held at once, which bounds the memory: a token
	// takes 2 · layers · width values, fewer if heads share them. Default 32768, 200 MB of bfloat16 for the embedded
	// model. Smaller saves memory and is slower; much larger is faster on a GPU alone.
	BatchTokens int `yaml:"batch_tokens" range:"[1, 2^30]"`
}

// KindPlace stands for the kind of text in template_header.
const KindPlace = "{kind}"

// FIDDraws returns the number of prompts, and of samples of each, in a measurement of the Fréchet distance: the prompts
// of a round, one sample of each as in the published code, but more of few prompts, because the distance of fewer than
// 500 texts is imprecise.
func (g Generate) FIDDraws() (prompts, samples int) {
	return g.Prompts, min(g.Samples, max(1, (500+g.Prompts-1)/g.Prompts))
}
