/* What every exported library is made of besides its kernels: it picks code for the processor, has weights prepared or mapped,
 * and hands parallel regions to threads. Generated definitions stand before this text (source.py):
 *
 *   NAME(x)                           the public name of x
 *   TS_INPUTS, TS_CONSTANTS, TS_OUTPUTS, TS_BUILD, TS_WEIGHTS_BYTES, TS_INSIDE (weights are part of the library)
 *   variants[], TS_VARIANTS           code and needs for each processor, the best first
 */

struct variant {
  const char *target;
  int (*runs_here)(void);
  void (*run)(void **arguments, void *prepared, void *workspace);
  void (*prepare)(void **arguments, void *prepared, void *workspace); /* NULL: prepared is stored */
  size_t prepared_bytes, preparing_bytes, workspace_bytes;
  int64_t prepared_at;                                  /* in the weights; -1: nowhere */
  int64_t constant_at[TS_CONSTANTS ? TS_CONSTANTS : 1]; /* those that calls or prepare read; -1: nobody */
};

static const struct variant variants[TS_VARIANTS];

struct state {
  const struct variant *variant;
  const unsigned char *weights; /* mapped, or inside of the library */
  size_t mapped_bytes;
  void *prepared;
  int owned; /* prepared is memory of its own */
};

static struct state state;
static _Atomic int ready;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- threads ------------------------------------------------------------------------------------------------------------ */

static NAME(pool) lent;
static void *lent_to;
static _Thread_local unsigned self;
static _Thread_local unsigned count = 1;

struct forked {
  void (*region)(void *);
  void *data;
  unsigned threads;
};

/* Runs one thread's part of a region; a region may stand inside of another. */
static void part(void *given, unsigned thread) {
  struct forked *forked = given;
  unsigned before = self, before_count = count;
  self = thread;
  count = forked->threads;
  forked->region(forked->data);
  self = before;
  count = before_count;
}

static void fork_region(void (*region)(void *), void *data, unsigned threads) {
  struct forked forked = {region, data, threads};
  if (lent) {
    lent(lent_to, part, &forked, threads);
    return;
  }
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    forked.threads = (unsigned)omp_get_num_threads();
    part(&forked, (unsigned)omp_get_thread_num());
  }
#else
  for (unsigned thread = 0; thread < threads; thread++) part(&forked, thread);
#endif
}

unsigned TS(thread_num)(void) { return self; }
unsigned TS(num_threads)(void) { return count; }

/* One team for all regions of a run: threads wait for the next region between them, spinning at first. */
struct team {
  _Alignas(64) _Atomic long generation;
  void (*region)(void *);
  void *data;
  unsigned threads;
  _Alignas(64) _Atomic long arrived;
};

static _Thread_local struct team *current;

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

/* Spins for some 50 us, then gives the core away, then sleeps. */
static void await(_Atomic long *place, long wanted) {
  static const struct timespec nap = {0, 50000};
  for (long tries = 0; atomic_load_explicit(place, memory_order_acquire) != wanted; tries++) {
    if (tries < 2000) PAUSE();
    else if (tries < 12000) sched_yield();
    else nanosleep(&nap, NULL);
  }
}

void TS(region)(void (*region)(void *), void *data, unsigned threads, unsigned flags) {
  struct team *team = current;
  (void)flags;
  if (!team || team->threads != threads) {
    fork_region(region, data, threads);
    return;
  }
  team->region = region;
  team->data = data;
  long generation = atomic_load_explicit(&team->generation, memory_order_relaxed) + 1;
  atomic_store_explicit(&team->generation, generation, memory_order_release);
  struct forked forked = {region, data, threads};
  part(&forked, 0);
  await(&team->arrived, generation * (long)(threads - 1));
}

void TS(team)(void (*body)(void *), void *given, unsigned threads) {
#ifdef _OPENMP
  if (!lent && threads > 1) {
    struct team team = {.threads = threads};
#pragma omp parallel num_threads(threads)
    {
      unsigned thread = (unsigned)omp_get_thread_num();
      if (thread == 0) {
        team.threads = (unsigned)omp_get_num_threads(); /* others read it after the first region's generation */
        current = team.threads == threads ? &team : NULL;
        body(given);
        current = NULL;
        team.region = NULL;
        atomic_fetch_add_explicit(&team.generation, 1, memory_order_release);
      } else {
        for (long generation = 1;; generation++) {
          await(&team.generation, generation);
          if (!team.region) break;
          struct forked forked = {team.region, team.data, threads};
          part(&forked, thread);
          atomic_fetch_add_explicit(&team.arrived, 1, memory_order_release);
        }
      }
    }
    return;
  }
#endif
  (void)threads;
  body(given);
}

/* ---- weights ------------------------------------------------------------------------------------------------------------ */

#define PAGE 4096
static size_t in_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

#if TS_WEIGHTS_BYTES && !TS_INSIDE
/* Maps the file; its first 64 bytes say of which export it is. */
static int map_weights(const char *path) {
  if (!path) return NAME(NO_WEIGHTS);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NAME(NO_WEIGHTS);
  struct stat about;
  int right = !fstat(file, &about) && (unsigned long long)about.st_size == (unsigned long long)TS_WEIGHTS_BYTES;
  void *mapped = right ? mmap(NULL, TS_WEIGHTS_BYTES, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  close(file);
  if (!right) return NAME(WRONG_WEIGHTS);
  if (mapped == MAP_FAILED) return NAME(NO_MEMORY);
  if (memcmp(mapped, TS_BUILD, sizeof TS_BUILD - 1)) {
    munmap(mapped, TS_WEIGHTS_BYTES);
    return NAME(WRONG_WEIGHTS);
  }
  state.weights = mapped;
  state.mapped_bytes = TS_WEIGHTS_BYTES;
  return NAME(OK);
}
#endif

static void fill_constants(void **arguments, const struct variant *variant) {
  for (int n = 0; n < TS_CONSTANTS; n++) {
    int64_t at = variant->constant_at[n];
    arguments[TS_INPUTS + n] = at < 0 ? NULL : (void *)(state.weights + at);
  }
}

/* Has the constants arranged as the kernels read them, where the export could not do so. */
static int prepare(const struct variant *variant) {
  size_t bytes = in_lines(variant->prepared_bytes + variant->preparing_bytes);
  void *arguments[TS_INPUTS + TS_CONSTANTS + TS_OUTPUTS] = {0};
  void *workspace = NULL;
  if (!variant->prepare) {
    state.prepared = variant->prepared_at < 0 ? NULL : (void *)(state.weights + variant->prepared_at);
    return NAME(OK);
  }
  state.prepared = aligned_alloc(64, bytes);
  if (variant->workspace_bytes) workspace = aligned_alloc(64, in_lines(variant->workspace_bytes));
  if (!state.prepared || (variant->workspace_bytes && !workspace)) {
    free(state.prepared);
    free(workspace);
    state.prepared = NULL;
    return NAME(NO_MEMORY);
  }
  state.owned = 1;
  fill_constants(arguments, variant);
  variant->prepare(arguments, state.prepared, workspace);
  free(workspace);
#if TS_WEIGHTS_BYTES && !TS_INSIDE
  madvise((void *)state.weights, state.mapped_bytes, MADV_DONTNEED); /* pages that calls need come back */
#endif
  return NAME(OK);
}

static const struct variant *choose(void) {
  for (int n = 0; n < TS_VARIANTS; n++)
    if (variants[n].runs_here()) return &variants[n];
  return NULL;
}

static int begin(const char *weights) {
  int status = NAME(OK);
  state.variant = choose();
  if (!state.variant) return NAME(UNSUPPORTED);
#if TS_WEIGHTS_BYTES && TS_INSIDE
  (void)weights;
  state.weights = TS(weights);
#elif TS_WEIGHTS_BYTES
  status = map_weights(weights);
#else
  (void)weights;
#endif
  return status == NAME(OK) ? prepare(state.variant) : status;
}

/* ---- the interface ------------------------------------------------------------------------------------------------------ */

static void release(void) {
#if TS_WEIGHTS_BYTES && !TS_INSIDE
  if (state.mapped_bytes) munmap((void *)state.weights, state.mapped_bytes);
#endif
  if (state.owned) free(state.prepared);
  memset(&state, 0, sizeof state);
}

int NAME(init)(const char *weights) {
  int status = NAME(OK);
  pthread_mutex_lock(&lock);
  if (!atomic_load(&ready)) {
    status = begin(weights);
    if (status == NAME(OK)) atomic_store(&ready, 1);
    else release();
  }
  pthread_mutex_unlock(&lock);
  return status;
}

void NAME(free)(void) {
  pthread_mutex_lock(&lock);
  atomic_store(&ready, 0);
  release();
  pthread_mutex_unlock(&lock);
}

void NAME(lend_threads)(NAME(pool) run, void *pool) {
  lent_to = pool;
  lent = run;
}

size_t NAME(workspace_bytes)(void) {
  const struct variant *variant = choose();
  return variant ? in_lines(variant->workspace_bytes) : 0;
}

int NAME(run)(const void *const *inputs, void *const *outputs, void *workspace) {
  void *arguments[TS_INPUTS + TS_CONSTANTS + TS_OUTPUTS];
  void *own = NULL;
  if (!atomic_load_explicit(&ready, memory_order_acquire)) {
    int status = NAME(init)(NULL);
    if (status != NAME(OK)) return status;
  }
  const struct variant *variant = state.variant;
  for (int n = 0; n < TS_INPUTS; n++)
    if (!(arguments[n] = inputs ? (void *)inputs[n] : NULL)) return NAME(NULL_POINTER);
  for (int n = 0; n < TS_OUTPUTS; n++)
    if (!(arguments[TS_INPUTS + TS_CONSTANTS + n] = outputs ? outputs[n] : NULL)) return NAME(NULL_POINTER);
  fill_constants(arguments, variant);
  if (variant->workspace_bytes && !workspace) {
    workspace = own = aligned_alloc(64, in_lines(variant->workspace_bytes));
    if (!own) return NAME(NO_MEMORY);
  }
  if ((uintptr_t)workspace % 64) return NAME(NOT_ALIGNED);
  variant->run(arguments, state.prepared, workspace);
  free(own);
  return NAME(OK);
}

const char *NAME(target)(void) {
  const struct variant *variant = choose();
  return variant ? variant->target : "";
}

const char *NAME(error)(int status) {
  switch (status) {
    case NAME(OK): return "no error";
    case NAME(UNSUPPORTED): return "this processor lacks what the code needs";
    case NAME(NO_WEIGHTS): return "the file of weights was not given, or cannot be opened";
    case NAME(WRONG_WEIGHTS): return "the file of weights is not that of this export";
    case NAME(NO_MEMORY): return "there is not enough memory";
    case NAME(NULL_POINTER): return "an input or output is a null pointer";
    case NAME(NOT_ALIGNED): return "the workspace is not aligned to 64 bytes";
    default: return "no such status";
  }
}
