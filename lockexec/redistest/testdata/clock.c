// Gives a program that has this in LD_PRELOAD another time of day: so many
// nanoseconds ahead of the system's as the first eight bytes of the file
// $REDISTEST_CLOCK say, at every moment. Clocks that measure how long things
// take are left alone. libfaketime can't do this to redis-server, as they get
// into each other's way when jemalloc starts; hence no call of this allocates.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
	const char *file = getenv("REDISTEST_CLOCK");
	int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		abort();
	ahead = page;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
	int failed = syscall(SYS_clock_gettime, clock, now);
	if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		int64_t nanos = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *ahead;
		now->tv_sec = nanos / 1000000000;
		now->tv_nsec = nanos % 1000000000;
	}
	return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
	(void)zone;
	struct timespec t;
	if (clock_gettime(CLOCK_REALTIME, &t))
		return -1;
	now->tv_sec = t.tv_sec;
	now->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *now) {
	struct timespec t;
	if (clock_gettime(CLOCK_REALTIME, &t))
		return -1;
	if (now)
		*now = t.tv_sec;
	return t.tv_sec;
}
