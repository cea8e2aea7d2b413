package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// sample is what rounds measured of one program.
type sample struct {
	name      string
	command   func() *exec.Cmd
	wall, cpu []time.Duration
}

// inTurns runs every program once a round, in a changing order, so that what
// else the machine does falls on all of them alike.
func inTurns(rounds int, samples []*sample) error {
	for range rounds {
		for _, i := range rand.Perm(len(samples)) {
			s := samples[i]
			cmd := s.command()
			start := time.Now()
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.wall = append(s.wall, time.Since(start))
			s.cpu = append(s.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		}
	}
	return nil
}

// uncontended times runs of a command that does nothing, from start to exit.
func (f *field) uncontended(rounds int) ([]runResult, error) {
	samples := make([]*sample, 0, len(f.tools))
	for _, t := range f.tools {
		samples = append(samples, &sample{name: t.name, command: func() *exec.Cmd { return t.command("alone", false, 0, "true") }})
	}
	if err := inTurns(rounds, samples); err != nil {
		return nil, err
	}
	base := samples[slices.IndexFunc(samples, func(s *sample) bool { return s.name == yardstick })]
	all := make([]runResult, 0, len(samples))
	for i, s := range samples {
		kilobytes, processes, err := f.footprint(f.tools[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, runResult{
			Name: s.name, Wall: millis(median(s.wall)), CPU: millis(median(s.cpu)),
			WallRatio: rounded(median(ratios(s.wall, base.wall))), CPURatio: rounded(median(ratios(s.cpu, base.cpu))),
			Memory: kilobytes, Processes: processes,
		})
	}
	return all, nil
}

// footprint returns the memory of the processes of a run while its command
// runs, without the command.
func (f *field) footprint(t tool) (kilobytes, processes int, err error) {
	work, err := os.MkdirTemp(f.dir, "footprint")
	if err != nil {
		return 0, 0, err
	}
	cmd := t.command("footprint", false, 0, f.program("job"), work, "0")
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	if !awaitFile(filepath.Join(work, "0"), time.Minute) {
		return 0, 0, fmt.Errorf("the command does not start")
	}
	job, err := readRun(work, 0)
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(time.Second) // for the memory of the start to be returned
	for _, pid := range tree(cmd.Process.Pid) {
		if pid != job.pid {
			kilobytes += memory(pid)
			processes++
		}
	}
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		return 0, 0, err
	}
	return kilobytes, processes, cmd.Wait()
}
