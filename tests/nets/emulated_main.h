// Runs the kernel `fit`, included before, as one block.
static const Work *given;
static void one_thread() {
    fit(*given);
    ended[threadIdx.x] = true;
    --left;
    swapcontext(&fibers[running], &scheduler);
}

extern "C" void run(const Work *work) {
    given = work;
    left = THREADS;
    fibers.assign(THREADS, {});
    ended.assign(THREADS, false);
    warps.assign(THREADS / 32, Barrier{0, 32, 0});
    everyone = Barrier{0, THREADS, 0};
    memset(shared, 0xff, sizeof shared);  // NaN: nothing may be read before it was written
    const size_t size = 1 << 18;
    std::vector<char> stacks(size * THREADS);
    for (int k = 0; k < THREADS; ++k) {
        getcontext(&fibers[k]);
        fibers[k].uc_stack.ss_sp = stacks.data() + size * k;
        fibers[k].uc_stack.ss_size = size;
        fibers[k].uc_link = nullptr;
        makecontext(&fibers[k], one_thread, 0);
    }
    while (left)
        for (int k = 0; k < THREADS; ++k)
            if (!ended[k]) {
                running = threadIdx.x = k;
                swapcontext(&scheduler, &fibers[k]);
            }
}
