package lock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlockrun/redlockrun/lockexec/redistest"
)

// startPlace starts a fresh, empty server; the second client has all rights.
type startPlace = func(t *testing.T) (redis.UniversalClient, *redis.Client)

// versionPlaces are servers of other versions than the one in PATH, as many as
// REDLOCKRUN_TEST_SERVERS lists.
func versionPlaces(t *testing.T) map[string]startPlace {
	t.Helper()
	places := map[string]startPlace{}
	for _, version := range otherVersions(t) {
		places[version.Name] = func(t *testing.T) (redis.UniversalClient, *redis.Client) {
			s := redistest.Start(t, redistest.WithBinary(version.Path))
			return newClient(t, &redis.Options{Addr: s.Addr()}), s.Client(t)
		}
	}
	return places
}

// forEachVersion runs a test with the server in PATH, as name, and with each of
// the other versions, as name/version.
func forEachVersion(t *testing.T, name string, test func(t *testing.T, version redistest.Option)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { test(t, redistest.WithBinary("redis-server")) })
	for _, version := range otherVersions(t) {
		t.Run(name+"/"+version.Name, func(t *testing.T) { test(t, redistest.WithBinary(version.Path)) })
	}
}

func otherVersions(t *testing.T) []redistest.Version {
	t.Helper()
	versions, err := redistest.Versions()
	if err != nil {
		t.Fatal(err)
	}
	return versions
}
