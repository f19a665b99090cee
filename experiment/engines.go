package experiment

import (
	"fmt"

	"popri/configs"
	"popri/methods"
	"popri/sampling/vllm"
)

// server describes the server that draws samples; nil where this program does.
func (s *Session) server() *vllm.Server {
	url := s.Config.Generate.Server()
	if url == "" {
		return nil
	}
	server := vllm.New(url)
	server.Stops = s.prompter.Stops()
	server.Loaded = func(p vllm.Proof) {
		if log := s.trainer.Events.Log; log != nil {
			log("engine", 0, p)
		}
	}
	return server
}

// engineNotes say, for the report, which other programs wrote the samples and trained the adapters.
func engineNotes(c configs.Config) (notes []string) {
	if c.DPO.Engine == configs.TRL && methods.Of(c).Name == "popri" {
		notes = append(notes, "TRL trained the adapters (dpo.engine=trl) on popri's pairs, in its order and with its learning rates "+
			"and reference log-probabilities. After each round, popri compared the loss under the adapter with TRL's. Another "+
			"run may give other bytes.")
	}
	if url := c.Generate.Server(); url != "" {
		notes = append(notes, fmt.Sprintf("A vLLM server drew the samples (generate.engine=vllm:%s). Each adapter had to change its "+
			"log-probabilities of prompts as it does in popri. Another run may draw other samples.", url))
	}
	return notes
}
