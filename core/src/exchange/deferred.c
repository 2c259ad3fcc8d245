#include "../internal.h"

/* The public struct has an ordinary pointer, so that C++ can include the header. Here it is always accessed as an atomic. */
typedef _Atomic(void *) atomic_head;
_Static_assert(sizeof(atomic_head) == sizeof(void *) && _Alignof(atomic_head) == _Alignof(void *),
               "an atomic pointer must look like a pointer");

bool tenon_deferred_push(tenon_deferred *list, tenon_deferred_node *node, void (*release)(void *owner), void *owner)
{
    if (!list || !node)
        return false;
    atomic_head *head = (atomic_head *)&list->head;
    node->release = release;
    node->owner = owner;
    tenon__count(&tenon__live.deferred, 1);
    void *first = atomic_load_explicit(head, memory_order_relaxed);
    do {
        node->next = first;
    } while (!atomic_compare_exchange_weak_explicit(head, &first, node, memory_order_release, memory_order_relaxed));
    return first == NULL;
}

int64_t tenon_deferred_drain(tenon_deferred *list)
{
    if (!list)
        return 0;
    /* Taking the whole list at once avoids the ABA problem: no other thread can remove a node and push it again. */
    tenon_deferred_node *node = atomic_exchange_explicit((atomic_head *)&list->head, NULL, memory_order_acquire);
    tenon_deferred_node *in_order = NULL;
    while (node) {
        tenon_deferred_node *next = node->next;
        node->next = in_order;
        in_order = node;
        node = next;
    }
    int64_t count = 0;
    while (in_order) {
        tenon_deferred_node *next = in_order->next;
        tenon__count(&tenon__live.deferred, -1);
        if (in_order->release)
            in_order->release(in_order->owner);
        in_order = next;
        count++;
    }
    return count;
}
