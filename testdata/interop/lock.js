// A lock of redlock (on ioredis), told what to do by lines on stdin:
//
//	acquire NAME TTL_MS  -> the token, or "busy"
//	extend TTL_MS        -> "extended", or "lost" when it was not ours any more
//	release              -> "released", or "lost" when it was not ours any more
//
// Usage: node lock.js HOST:PORT [HOST:PORT...], several for a quorum
const readline = require('readline');
const { Redis } = require('ioredis');
const Redlock = require('redlock');

const clients = process.argv.slice(2).map((addr) => {
  const [host, port] = addr.split(':');
  return new Redis({ host, port: Number(port), maxRetriesPerRequest: 0, retryStrategy: () => null });
});
const redlock = new Redlock(clients, { retryCount: 0 });
redlock.on('clientError', (err) => console.error(String(err)));

async function answer(line) {
  const [word, ...args] = line.split(' ');
  try {
    if (word === 'acquire') {
      answer.lock = await redlock.lock(args[0], Number(args[1]));
      return answer.lock.value;
    }
    if (word === 'extend') {
      await redlock.extend(answer.lock, Number(args[0]));
      return 'extended';
    }
    await redlock.unlock(answer.lock);
    return 'released';
  } catch (err) {
    if (err.name !== 'LockError') throw err;
    return word === 'acquire' ? 'busy' : 'lost';
  }
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(await answer(line));
  }
  clients.forEach((client) => client.disconnect());
})();
