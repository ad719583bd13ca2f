// A user's program in C++: says whether a vector lies in pinned memory.
#include <warmpool/warmpool.hpp>

#include <cstdio>
#include <vector>

int main()
{
    warmpool::runtime runtime;
    warmpool::pinned_resource memory(runtime);
    std::pmr::vector<int> numbers(1000, 7, &memory);
    warm_block_info info = WARM_INIT(warm_block_info);

    if (warm_block_get_info(numbers.data(), &info) != WARM_OK) {
        return 1;
    }
    std::puts(warm_version());
    return 0;
}
