package mutants

const cmdPkg = "./cmd "

// processes: the two that watch over a command, and over each other.
func processes() []Mutant {
	return []Mutant{
		{
			Name:   "wrapper-notices-a-death",
			Guards: "the wrapper notices that the supervisor has died",
			File:   "lockexec/guard/wrapper_unix.go",
			Old:    "case err != nil: // the supervisor is dead, or talks nonsense",
			New:    "case err != nil && false: // the supervisor is dead, or talks nonsense",
			Test:   cmdPkg + "^TestTheSupervisorDies$/^killed$",
		},
		{
			Name:   "wrapper-looks-at-the-clock",
			Guards: "the wrapper notices that the supervisor was stopped",
			File:   "lockexec/guard/wrapper_unix.go",
			Old:    "case w.guarded() && now >= w.overdue():",
			New:    "case false:",
			Test:   cmdPkg + "^TestTheSupervisorIsStopped$",
		},
		{
			Name:   "wrapper-kills-then-releases",
			Guards: "the wrapper releases the lock when the command is dead",
			File:   "lockexec/guard/ends_unix.go",
			Old:    "	w.supervisor.Kill()\n	if w.command != 0 && !w.gone && w.mode != shared {\n		proc.KillOrphanedGroup(w.command)\n	}\n	err := w.release(ctx)\n",
			New:    "	err := w.release(ctx)\n	w.supervisor.Kill()\n	if w.command != 0 && !w.gone && w.mode != shared {\n		proc.KillOrphanedGroup(w.command)\n	}\n",
			Test:   cmdPkg + "^TestTheSupervisorDies$/^killed$",
		},
		{
			Name:   "wrapper-releases",
			Guards: "the wrapper releases the lock of a supervisor that died",
			File:   "lockexec/guard/ends_unix.go",
			Old:    "	err := w.release(ctx)\n	w.takeTerminalBack(true)\n	return err",
			New:    "	w.takeTerminalBack(true)\n	return nil",
			Test:   cmdPkg + "^TestTheSupervisorDies$/^killed$",
		},
		{
			Name:   "wrapper-adopts",
			Guards: "the wrapper finds what a dead supervisor leaves behind",
			File:   "lockexec/guard/wrapper_unix.go",
			Old:    "	w.supervisor.Adopt()\n",
			New:    "",
			Test:   cmdPkg + "^TestTheSupervisorDies$/^killed$",
		},
		{
			Name:   "supervisor-notices-a-death",
			Guards: "the supervisor notices that the wrapper has died",
			File:   "lockexec/guard/supervisor_unix.go",
			Old:    "			s.cancel(errWrapperDied)\n",
			New:    "",
			Test:   cmdPkg + "^TestTheWrapperIsKilled$",
		},
		{
			Name:   "supervisor-is-continued",
			Guards: "a supervisor that is stopped notices it, too",
			File:   "lockexec/guard/supervisor_unix.go",
			Old:    "	continueWhenOrphaned()\n",
			New:    "",
			Test:   cmdPkg + "^TestTheWrapperIsKilledWhileTheSupervisorIsStopped$",
		},
		{
			Name:   "supervisor-continues-the-wrapper",
			Guards: "a wrapper that is stopped hears of the command's end",
			File:   "lockexec/guard/supervisor_unix.go",
			Old:    "	s.continueWrapper()\n	link.flush(patience)",
			New:    "	link.flush(patience)",
			Test:   cmdPkg + "^TestTheWrapperIsStopped$",
		},
		{
			Name:   "wrapper-insists",
			Guards: "a signal ends the attempt of a supervisor that does not answer",
			File:   "lockexec/guard/wrapper_unix.go",
			Old:    "	case w.command == 0:\n		w.giveUpAt = lock.Now()\n",
			New:    "",
			Test:   cmdPkg + "^TestAStoppedSupervisorDoesNotKeepASignalFromWorking$",
		},
		{
			Name:   "tree-dies-whole",
			Guards: "a kill reaches what has left the command's group",
			File:   "lockexec/proc/tree_linux.go",
			Old:    "		return p.children(os.Getpid())\n	}\n	if p.reaped {",
			New:    "		return nil\n	}\n	if p.reaped {",
			Test:   "./lockexec/proc ^TestKillEndsTheWholeTree$",
		},
		{
			Name:   "tree-is-waited-for",
			Guards: "orphans of the command are seen",
			File:   "lockexec/proc/tree_linux.go",
			Old:    "return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil",
			New:    "return true",
			Test:   cmdPkg + "^TestTheWrapperIsKilled$",
		},
		{
			Name:   "settings-of-another-version",
			Guards: "a program that was replaced while it starts is refused",
			File:   "lockexec/guard/protocol.go",
			Old:    "if version != protocolVersion {",
			New:    "if version == \"\" {",
			Test:   "./lockexec/guard ^TestAnotherVersionIsRefused$",
		},
		{
			Name:   "sending-never-waits",
			Guards: "a stopped wrapper does not hold up the supervisor",
			File:   "lockexec/guard/link_unix.go",
			Old:    "	if !l.full {\n		l.sendQueue()\n	}",
			New:    "	l.sendQueue()\n	for l.full {\n		l.sendQueue()\n	}",
			Test:   "./lockexec/guard ^TestSendingNeverWaits$",
		},
	}
}
