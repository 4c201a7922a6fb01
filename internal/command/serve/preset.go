package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"ossian/internal/ckpt"
	"ossian/internal/command"
	"ossian/internal/config"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/local"
	"ossian/internal/lab/size"
	"ossian/internal/load"
	"ossian/internal/plan"
)

// What a preset is predicted for: the aims compare settings, for which shorter requests than those
// of a benchmark do.
const (
	presetInput  = 512
	presetOutput = 256
)

// applyPreset sets the limits that nobody gave by the preset's aim and says so: the values, the
// predicted frontier around them, and what was assumed.
func applyPreset(ctx context.Context, cfg *config.Config, checkpoint *ckpt.Model, loading *load.Loading, available int64, note func(string)) error {
	if cfg.Preset == "" || (cfg.MaxNumSeqs > 0 && cfg.MaxBatchTokens > 0) {
		return nil
	}
	if card := loading.Device().Card(); card != "" {
		return fmt.Errorf("--preset on %s: what presets are predicted with is known of processors only; give --max-num-seqs and --max-num-batched-tokens, or --device cpu", card)
	}
	if strings.Contains(cfg.Device, ":") {
		return fmt.Errorf("--preset with --device %s: this server only plays a machine; ossian lab predict --preset is for those that are not there", cfg.Device)
	}
	place, engine, assumed, err := thisMachine(ctx, loading.Device().Threads())
	if err != nil {
		return err
	}
	kept, err := loading.Device().Kept(checkpoint)
	if err != nil {
		return err
	}
	counted, err := plan.New(checkpoint.Spec, kept)
	if err != nil {
		return err
	}
	room, err := planMemory(cfg, checkpoint, loading, available) // without the preset: what fits at most
	if err != nil {
		return err
	}
	if size.Aim(cfg.Preset) == size.MinLatency && cfg.PresetUsers > room.Limits.MaxSeqs {
		return fmt.Errorf("--preset-users %d: memory lets %d run at once", cfg.PresetUsers, room.Limits.MaxSeqs)
	}
	choice, err := size.Preset(ctx, size.Wish{Aim: size.Aim(cfg.Preset), Model: counted, Machine: place, Engine: engine,
		Settings: predict.Settings{MaxSeqs: cfg.MaxNumSeqs, MaxTokens: cfg.MaxBatchTokens, MaxLen: room.Limits.MaxLen},
		Users:    cfg.PresetUsers, MostUsers: room.Limits.MaxSeqs, Input: presetInput, Output: presetOutput, Chat: true, Workers: 1})
	if err != nil {
		return fmt.Errorf("--preset %s: %w", cfg.Preset, err)
	}
	choice.Assumed = append(choice.Assumed, assumed...)
	cfg.MaxNumSeqs, cfg.MaxBatchTokens = choice.Point.Settings.MaxSeqs, choice.Point.Settings.MaxTokens
	note("preset " + cfg.Preset + ": " + choice.Point.Flags())
	for line := range strings.Lines(choice.Text()) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			note(line)
		}
	}
	return nil
}

// thisMachine is what is known of this computer's processors: a calibration, or how fast they read.
func thisMachine(ctx context.Context, threads int) (out size.Machine, engine predict.Profile, assumed []string, err error) {
	if engine, err = predict.Engine("ossian", command.Version()); err != nil {
		return out, engine, nil, err
	}
	if path := local.Path(command.StateDir()); path != "" {
		// A calibration counts if this engine made it on this machine: kernels of another version
		// reach other speeds.
		file, err := local.Open(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return out, engine, nil, fmt.Errorf("%s: %w; `ossian lab calibrate` makes it anew", path, err)
		case file.Host != nil && file.Covers(file.Host.Name, engine.Name, engine.Version):
			return size.Machine{Machine: *file.Host, Calibration: file.Calibration}, engine, []string{"the calibration in " + path}, nil
		}
	}
	bandwidth, err := load.Bandwidth(ctx, threads)
	if err != nil {
		return out, engine, nil, err
	}
	out.Machine = local.Host(bandwidth, threads)
	return out, engine, []string{fmt.Sprintf("no calibration of this machine by this version, which `ossian lab calibrate` makes: memory is read at %.1f GB/s, measured now, and a core does 50 Gop/s", bandwidth/1e9)}, nil
}
