package mutants

const (
	scripts = "lockexec/lock/scripts/"
	lockPkg = "./lockexec/lock "
)

// ownership: a lock is changed only by who has its token.
func ownership() []Mutant {
	return []Mutant{
		{
			Name:   "release-compares",
			Guards: "a release deletes no lock of another",
			File:   scripts + "release.lua",
			Old:    "if state == 1 then\n  if ARGV[3] ~= '' then",
			New:    "if state ~= 0 then\n  if ARGV[3] ~= '' then",
			Test:   lockPkg + "^TestReleaseNeverDeletesAnothersLock$/^tcp$",
		},
		{
			Name:   "renew-compares",
			Guards: "a renewal prolongs no lock of another",
			File:   scripts + "renew.lua",
			Old:    "if state == 1 then",
			New:    "if state ~= 0 then",
			Test:   lockPkg + "^TestRenewNeverBringsALockBack$/^tcp$",
		},
		{
			Name:   "token-compares",
			Guards: "a lock is ours only with our token in it",
			File:   scripts + "prelude.lua",
			Old:    "if value == token then",
			New:    "if value then",
			Test:   lockPkg + "^TestReleaseNeverDeletesAnothersLock$/^tcp$",
		},
		{
			Name:   "delete-compares",
			Guards: "nor does a release while a slot moves",
			File:   scripts + "delete.lua",
			Old:    "if state == 1 then",
			New:    "if state ~= 0 then",
			Test:   lockPkg + "^TestAReleaseWhileASlotMovesDeletesNoLockOfAnother$",
		},
		{
			Name:   "lease-of-many-ends",
			Guards: "who shares a lock has it no longer than its own lease",
			File:   scripts + "prelude.lua",
			Old:    "return ends > now_micros() / 1000 and 1 or 0",
			New:    "return 1",
			Test:   lockPkg + "^TestADeadReaderIsNotRenewedByOthers$/^tcp$",
		},
		{
			Name:   "revoke-only-the-seen",
			Guards: "release --force takes the lock from those who were seen, and from nobody else",
			File:   scripts + "revoke.lua",
			Old:    "local meant = named[name_of(value)] or buried and named[name_of(buried)]",
			New:    "local meant = true",
			Test:   lockPkg + "^TestOnlyThoseWhoWereSeenAreRevoked$/^tcp$",
		},
		{
			Name:   "revoke-keeps-the-lock-taken",
			Guards: "a revoked lock is not free before its holder has stopped",
			File:   scripts + "revoke.lua",
			Old:    "if meant and (at_once or stem(value, kept)) then",
			New:    "if meant then",
			Test:   lockPkg + "^TestARevokedLockIsLostAndNotYetFree$/^tcp$",
		},
		{
			Name:   "renew-says-revoked",
			Guards: "a holder learns that its lock was revoked",
			File:   scripts + "renew.lua",
			Old:    "  return -2\n",
			New:    "  return 1\n",
			Test:   lockPkg + "^TestARevokedLockIsLostAndNotYetFree$/^tcp$",
		},
		{
			Name:   "own-token-is-known",
			Guards: "who asks again after a lost reply finds its own lock",
			File:   scripts + "acquire.lua",
			Old:    "if state == 1 then\n  return confirm()",
			New:    "if state == 1 then\n  return {0, ttl, '', '0', 0, 0, ''}",
			Test:   lockPkg + "^TestALostReplyDoesNotLockUsOut$",
		},
		{
			Name:   "spent-token",
			Guards: "a request that comes after the release takes no lock",
			File:   scripts + "acquire.lua",
			Old:    "if value_of(wake_list) then",
			New:    "if false then",
			Test:   lockPkg + "^TestATryThatComesTooLateFindsItsTokenSpent$/^tcp$",
		},
		{
			Name:   "settle-before-giving-up",
			Guards: "who gives up waits for what is still on its way, and takes it back",
			File:   "lockexec/lock/acquisition.go",
			Old:    "if a.lease.unsettled || a.inLine {",
			New:    "if a.inLine {",
			Test:   lockPkg + "^TestALateRequestIsSettledBeforeGivingUp$",
		},
		{
			Name:   "leave-the-line",
			Guards: "who gives up waiting leaves the line",
			File:   "lockexec/lock/acquisition.go",
			Old:    "if a.lease.unsettled || a.inLine {",
			New:    "if a.lease.unsettled {",
			Test:   lockPkg + "^TestAWaitThatRunsOut$/^tcp$",
		},
		{
			Name:   "client-does-not-repeat",
			Guards: "no client sends a script again by itself",
			File:   "lockexec/lock/server.go",
			Old:    "func (onceCmd) NoRetry() bool { return true }",
			New:    "func (onceCmd) NoRetry() bool { return false }",
			Test:   lockPkg + "^TestALostReplyToAReleaseIsNoLoss$",
		},
	}
}
