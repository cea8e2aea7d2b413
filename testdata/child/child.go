//go:build unix

// Package child plays the commands that tests run under the lock, where a
// shell can't: those that note when they run or what signals they get, and
// those that do not want to die.
package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redlockrun/redlockrun/lockexec/lock"
	"github.com/redlockrun/redlockrun/lockexec/proc"
)

// Main plays the part that the first argument names, with the others as its
// arguments, and returns an exit code.
func Main() int {
	parts := map[string]func(args []string) error{
		"signals": signals,
		"stamps":  stamps,
		"daemon":  daemon,
		"storm":   storm,
		"limits":  limits,
		"read":    read,
	}
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "child: no such part")
		return 64
	}
	if err := parts[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

// signals FILE notes the name of each signal that it gets, after "ready", and
// ends at the first TERM. FILE.pid has its process ID.
func signals(args []string) error {
	got := make(chan os.Signal, 64)
	signal.Notify(got, append(append(proc.Forwardable(), proc.RareSignals()...), syscall.SIGCONT)...)
	file, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[0]+".pid", fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		return err
	}
	fmt.Fprintln(file, "ready")
	for sig := range got {
		fmt.Fprintln(file, proc.SignalName(sig.(syscall.Signal)))
		if sig == syscall.SIGTERM {
			return nil
		}
	}
	return nil
}

// longest is how long the parts play that nobody can ask to stop: a test that
// was killed leaves them to the machine.
const longest = 10 * time.Minute

// stamps FILE writes the present instant of the lease's clock every
// millisecond, and can't be asked to stop.
func stamps(args []string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	file, err := os.Create(args[0])
	if err != nil {
		return err
	}
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := fmt.Fprintf(file, "%d %d\n", lock.Now(), os.Getpid()); err != nil {
			return err
		}
	}
	return nil
}

// daemon FILE starts a process as daemons start: in a session of its own, as
// the child of a process that has ended. The daemon writes stamps.
func daemon(args []string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	next := &exec.Cmd{Path: exe, Args: append([]string{"child", "daemon"}, args...), SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if len(args) == 1 {
		next.Args = append(next.Args, "second")
		return next.Start()
	}
	next.Args = []string{"child", "stamps", args[0]}
	return next.Start()
}

// storm N FILE [END] keeps about N processes alive, each of which starts the
// next and ends: there is always one being born. Each adds its process ID to
// the file. They stop at END (Unix seconds), or a test that was killed would
// leave them for ever.
func storm(args []string) error {
	if len(args) == 2 {
		args = append(args, strconv.FormatInt(time.Now().Add(longest).Unix(), 10))
	}
	end, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	if time.Now().Unix() > end {
		return nil
	}
	file, err := os.OpenFile(args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintln(file, os.Getpid())
	lanes, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	for range lanes {
		next := &exec.Cmd{
			Path: exe, Args: []string{"child", "storm", "1", args[1], args[2]},
			SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		}
		if err := next.Start(); err != nil {
			return err
		}
	}
	return nil
}

// limits prints what a process inherits beside its arguments and environment.
func limits([]string) error {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	mask := syscall.Umask(0)
	nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	fmt.Printf("files %d umask %03o nice %d\n", files.Cur, mask, nice)
	return nil
}

// read prints what it reads from the terminal, line by line, until "end".
func read([]string) error {
	fmt.Println("reading")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "end" {
			return nil
		}
		fmt.Println("got", strings.ToUpper(lines.Text()))
	}
	return nil
}
