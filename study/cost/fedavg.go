package cost

import (
	"popri/configs"
	"popri/model/shipped"
	"popri/run/reporting"
	"popri/trainer/pretrain"
)

// FedAvg is what a client of federated averaging would receive and send in as many rounds: all parameters of the small model each
// way, as float32 (POPri, Table 2). It is not run, so there are no seconds.
func FedAvg(c configs.Config) (reporting.Cost, error) {
	small, err := shapeOf(c.Downstream.Model, shipped.Device, pretrain.Device)
	if err != nil {
		return reporting.Cost{}, err
	}
	bytes := 4 * int64(small.Parameters) * int64(c.Trainer.Rounds)
	return reporting.Cost{Name: "FedAvg, by count", Rounds: c.Trainer.Rounds, Sent: bytes, Received: bytes}, nil
}
