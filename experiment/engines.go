package experiment

import (
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
