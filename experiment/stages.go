package experiment

// judgeStage is the stage in which a small model is trained and judged by an adaptive ablation.
const judgeStage = "judge"

// timed does a stage outside of the trainer's.
func (s *Session) timed(name string, f func() error) error {
	s.tracking.Begin(name, 0)
	err := s.log.Stage(name, f)
	if err == nil {
		s.tracking.End()
	}
	return err
}
