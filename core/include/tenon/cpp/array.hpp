// Tensors as parameters of a C++ function: in, rw, out, kept; list, rw_list and out_list of several; and owned, a tensor in memory of the library.
//
// An array is a pointer, sizes and strides that were copied out of the tenon_view, so that they stay in registers. It owns
// nothing, except for kept and owned, and is copied freely. An argument that may be None is falsy if it was not given.
#ifndef TENON_CPP_ARRAY_HPP
#define TENON_CPP_ARRAY_HPP

#include <tenon/cpp/error.hpp>

#include <type_traits>

namespace tenon
{

// The rank of an array that may have any number of dimensions (`*b` in the signature).
constexpr int any = -1;

namespace impl // types only: see visibility.hpp
{

// The sizes and strides of Rank dimensions.
template <int Rank> struct extents {
    int64_t shape[Rank ? Rank : 1];
    int64_t strides[Rank ? Rank : 1];

    TENON__DEVICE TENON__HIDDEN extents() : shape(), strides()
    {
    }
    TENON__HIDDEN void read(const tenon_view &view, bool contiguous)
    {
        for (int i = 0; i < Rank; i++)
            shape[i] = view.shape[i];
        if (contiguous)
            pack();
        else
            for (int i = 0; i < Rank; i++)
                strides[i] = view.strides[i];
    }
    // C order without gaps. Constants and sizes, so that the compiler knows the last stride.
    TENON__DEVICE TENON__HIDDEN void pack()
    {
        int64_t step = 1;
        for (int i = Rank - 1; i >= 0; i--) {
            strides[i] = step;
            step *= shape[i];
        }
    }
    TENON__DEVICE TENON__HIDDEN constexpr int ndim() const
    {
        return Rank;
    }
};

// The same of a view with any number of dimensions. It points into the view.
template <> struct extents<any> {
    const int64_t *shape;
    const int64_t *strides;
    int count;

    TENON__DEVICE TENON__HIDDEN extents() : shape(nullptr), strides(nullptr), count(0)
    {
    }
    TENON__HIDDEN void read(const tenon_view &view, bool)
    {
        shape = view.shape;
        strides = view.strides;
        count = view.ndim;
    }
    TENON__DEVICE TENON__HIDDEN int ndim() const
    {
        return count;
    }
};

#ifdef TENON_CHECK_INDICES
// What a message calls an array.
struct label {
    const char *kind; // "argument" or "result"
    const char *name; // NULL for a result without a name
    int length;       // of the name, or the index of the result
};

[[noreturn]] TENON__HIDDEN inline void raise_bounds(const label &l, int64_t index, int dimension, int64_t size)
{
    if (l.name)
        raise(error(TENON_EBOUNDS, "%s '%.*s': index %lld is outside dimension %d, which has %lld elements", l.kind,
                    l.length, l.name, static_cast<long long>(index), dimension, static_cast<long long>(size)));
    raise(error(TENON_EBOUNDS, "%s %d: index %lld is outside dimension %d, which has %lld elements", l.kind, l.length,
                static_cast<long long>(index), dimension, static_cast<long long>(size)));
}
#endif

} // namespace impl

// What in, rw, out and kept have in common. Element is const if the elements are only read, and void if the dtype is known
// only at run time.
#ifdef TENON_CHECK_INDICES
inline namespace checked // its arrays have another layout, so files with and without the option do not link
{
#endif

template <class Element, int Rank> class array
{
    static_assert(Rank >= any && Rank <= TENON_MAX_NDIM, "the number of dimensions is from 0 to 64, or tenon::any");

  public:
    using value_type = typename std::remove_const<Element>::type;
    using element = typename std::conditional<std::is_void<Element>::value, const char, Element>::type;

    TENON__HIDDEN array()
    {
    }
    // The tensor of a view, which the signature may say to be in C order.
    TENON__HIDDEN explicit array(const tenon_view &view, bool contiguous = false)
        : data_(static_cast<Element *>(view.data)), view_(&view)
    {
        extents_.read(view, contiguous);
    }
    // Memory in C order.
    TENON__HIDDEN array(Element *data, const int64_t (&shape)[Rank > 0 ? Rank : 1]) : data_(data)
    {
        for (int i = 0; i < Rank; i++)
            extents_.shape[i] = shape[i];
        extents_.pack();
    }
    // The same array, whose elements are only read.
    template <class Other, class = typename std::enable_if<std::is_same<const Other, Element>::value &&
                                                           !std::is_const<Other>::value>::type>
    TENON__DEVICE TENON__HIDDEN_MEMBER array(const array<Other, Rank> &other)
        : data_(other.data_), extents_(other.extents_), view_(other.view_)
    {
#ifdef TENON_CHECK_INDICES
        label_ = other.label_;
#endif
    }

    // Whether an optional argument was given, or a result is allocated.
    TENON__DEVICE TENON__HIDDEN explicit operator bool() const
    {
        return data_ || view_;
    }
    // The first element.
    TENON__DEVICE TENON__HIDDEN Element *data() const
    {
        return data_;
    }
    TENON__DEVICE TENON__HIDDEN constexpr int ndim() const
    {
        return extents_.ndim();
    }
    // The number of elements.
    TENON__DEVICE TENON__HIDDEN int64_t size() const
    {
        int64_t product = 1;
        for (int i = 0; i < ndim(); i++)
            product *= extents_.shape[i];
        return product;
    }
    // The size of a dimension.
    TENON__DEVICE TENON__HIDDEN int64_t size(int dimension) const
    {
        return extents_.shape[dimension];
    }
    // The distance between two neighbours of a dimension, in elements.
    TENON__DEVICE TENON__HIDDEN int64_t stride(int dimension) const
    {
        return extents_.strides[dimension];
    }
    TENON__DEVICE TENON__HIDDEN const int64_t *shape() const
    {
        return extents_.shape;
    }
    TENON__DEVICE TENON__HIDDEN const int64_t *strides() const
    {
        return extents_.strides;
    }
    // The view, for the functions of function.h. NULL if it was not given, or if the array was made from memory.
    TENON__DEVICE TENON__HIDDEN const tenon_view *view() const
    {
        return view_;
    }

    // The element at these indices, one for each dimension. With -DTENON_CHECK_INDICES, an index that is out of range fails
    // the call (TENON_EBOUNDS).
    template <class... Index> TENON__DEVICE TENON__HIDDEN_MEMBER element &operator()(Index... index) const
    {
        static_assert(!std::is_void<Element>::value, "the elements of an array of void have no type: use data()");
        static_assert(Rank == any || static_cast<int>(sizeof...(index)) == Rank,
                      "an array needs one index for each dimension");
        int64_t offset = 0;
        int i = 0; // no loop over the indices: GCC does not unroll it at -O2
        ((offset += step(i++, static_cast<int64_t>(index))), ...);
        (void)i;
        return data_[offset];
    }

#ifdef TENON_CHECK_INDICES
    TENON__HIDDEN void name(const impl::label &label)
    {
        label_ = label;
    }
#endif

  protected:
    template <class, int> friend class array;

    // How far an index of a dimension is from its first element.
    TENON__DEVICE TENON__HIDDEN int64_t step(int dimension, int64_t index) const
    {
#ifdef TENON_CHECK_INDICES
        int64_t size = dimension < ndim() ? extents_.shape[dimension] : 0;
        if (index < 0 || index >= size) {
#ifdef __CUDA_ARCH__
            __trap();
#else
            impl::raise_bounds(label_, index, dimension, size);
#endif
        }
#endif
        return index * extents_.strides[dimension];
    }

#ifdef TENON_CHECK_INDICES
    impl::label label_ = {"an array", "", 0};
#endif
    Element *data_ = nullptr;
    impl::extents<Rank> extents_;
    const tenon_view *view_ = nullptr;
};

// A tensor argument that is only read. Every other array converts to it.
template <class Element, int Rank> class in : public array<const Element, Rank>
{
  public:
    TENON__HIDDEN in()
    {
    }
    TENON__HIDDEN explicit in(const tenon_view &view, bool contiguous = false)
        : array<const Element, Rank>(view, contiguous)
    {
    }
    TENON__HIDDEN in(const Element *data, const int64_t (&shape)[Rank > 0 ? Rank : 1])
        : array<const Element, Rank>(data, shape)
    {
    }
    TENON__DEVICE TENON__HIDDEN in(const array<const Element, Rank> &other) : array<const Element, Rank>(other)
    {
    }
    TENON__DEVICE TENON__HIDDEN in(const array<Element, Rank> &other) : array<const Element, Rank>(other)
    {
    }
};

// A tensor argument that is written to ('rw' in the signature).
template <class Element, int Rank> class rw : public array<Element, Rank>
{
  public:
    TENON__HIDDEN rw()
    {
    }
    TENON__HIDDEN explicit rw(const tenon_view &view, bool contiguous = false) : array<Element, Rank>(view, contiguous)
    {
    }
};

// A tensor argument that is kept after the call ('keep' in the signature). It has a share of the memory until it is
// destroyed, which may happen on any thread.
template <class Element, int Rank> class kept : public array<const Element, Rank>
{
  public:
    TENON__HIDDEN kept()
    {
    }
    // Takes the share, which may be NULL.
    TENON__HIDDEN explicit kept(tenon_kept *share, bool contiguous = false) : share_(share)
    {
        if (share)
            array<const Element, Rank>::operator=(array<const Element, Rank>(*share->view, contiguous));
    }
    TENON__HIDDEN kept(kept &&other) noexcept : array<const Element, Rank>(other), share_(other.share_)
    {
        other.forget();
    }
    TENON__HIDDEN kept &operator=(kept &&other) noexcept
    {
        if (this != &other) {
            tenon_kept_release(share_);
            array<const Element, Rank>::operator=(other);
            share_ = other.share_;
            other.forget();
        }
        return *this;
    }
    TENON__HIDDEN ~kept()
    {
        tenon_kept_release(share_);
    }

  private:
    TENON__HIDDEN void forget()
    {
        array<const Element, Rank>::operator=(array<const Element, Rank>());
        share_ = nullptr;
    }
    tenon_kept *share_ = nullptr;
};

// What list, rw_list and out_list have in common. Item is the array that an item is.
template <class Item> class items
{
  public:
    // For loops over the items: `for (auto x : xs)`.
    class iterator
    {
      public:
        TENON__HIDDEN iterator(const items *list, int64_t at) : list_(list), at_(at)
        {
        }
        TENON__HIDDEN Item operator*() const
        {
            return (*list_)[at_];
        }
        TENON__HIDDEN iterator &operator++()
        {
            at_++;
            return *this;
        }
        TENON__HIDDEN bool operator!=(const iterator &other) const
        {
            return at_ != other.at_;
        }

      private:
        const items *list_;
        int64_t at_;
    };

    TENON__HIDDEN items()
    {
    }
    TENON__HIDDEN items(const tenon_view *views, int64_t count, bool contiguous, bool given)
        : views_(views), count_(count), contiguous_(contiguous), given_(given)
    {
    }
    TENON__HIDDEN explicit operator bool() const // false if an optional argument was not given
    {
        return given_;
    }
    TENON__HIDDEN int64_t size() const
    {
        return count_;
    }
    TENON__HIDDEN Item operator[](int64_t i) const
    {
#ifdef TENON_CHECK_INDICES
        if (i < 0 || i >= count_)
            impl::raise(error(TENON_EBOUNDS, "a list of %lld tensors has no item %lld", static_cast<long long>(count_),
                              static_cast<long long>(i)));
#endif
        return Item(views_[i], contiguous_);
    }
    TENON__HIDDEN iterator begin() const
    {
        return iterator(this, 0);
    }
    TENON__HIDDEN iterator end() const
    {
        return iterator(this, count_);
    }

  private:
    const tenon_view *views_ = nullptr;
    int64_t count_ = 0;
    bool contiguous_ = false;
    bool given_ = false;
};

// A list of tensors that are only read.
template <class Element, int Rank> class list : public items<in<Element, Rank>>
{
  public:
    TENON__HIDDEN list()
    {
    }
    TENON__HIDDEN list(const tenon_view *views, int64_t count, bool contiguous = false)
        : items<in<Element, Rank>>(views, count, contiguous, true)
    {
    }
};

// A list of tensors that are written to ('rw' inside the brackets).
template <class Element, int Rank> class rw_list : public items<rw<Element, Rank>>
{
  public:
    TENON__HIDDEN rw_list()
    {
    }
    TENON__HIDDEN rw_list(const tenon_view *views, int64_t count, bool contiguous = false)
        : items<rw<Element, Rank>>(views, count, contiguous, true)
    {
    }
};

// A list of results. One "for xs" has its tensors when the function runs. Any other is empty, and push() adds a tensor.
template <class Element, int Rank> class out_list : public items<rw<Element, Rank>>
{
  public:
    TENON__HIDDEN out_list(tenon_call *call, int index)
        : items<rw<Element, Rank>>(static_cast<const tenon_view *>(call->results[index].as.list.data),
                                   call->results[index].as.list.data ? call->results[index].as.list.length : 0, true,
                                   true),
          call_(call), index_(index)
    {
    }
    // The next tensor of the list, in C order.
    TENON__HIDDEN rw<Element, Rank> push(const int64_t (&shape)[Rank > 0 ? Rank : 1]) const
    {
        static_assert(Rank != any, "pass a shape and its length: push(shape, ndim)");
        return push(shape, Rank);
    }
    TENON__HIDDEN rw<Element, Rank> push(const int64_t *shape, int ndim) const
    {
        const tenon_view *view = tenon_result_push(call_, index_, ndim, shape);
        if (!view)
            impl::raise_failed();
        return rw<Element, Rank>(*view, true);
    }

  private:
    tenon_call *call_;
    int index_;
};

// Memory of the library that becomes a tensor without a copy ('own' in the signature): `return tenon::owned<float, 2>
// {std::move(rows), {n, d}}`. The container, which has data() or get(), moves to the heap until the last array is gone.
template <class Element, int Rank> class owned
{
  public:
    using value_type = Element;

    TENON__HIDDEN owned() // empty, until another one is assigned to it
    {
    }
    template <class Container>
    TENON__HIDDEN_MEMBER owned(Container &&container, const int64_t (&shape)[Rank ? Rank : 1])
        : owned(nullptr, static_cast<Container &&>(container))
    {
        int64_t elements = 1;
        for (int i = 0; i < Rank; i++)
            elements *= shape_[i] = shape[i];
        if (known_ && elements != size_)
            impl::raise(error(TENON_EFAILED, "its code returns %lld elements with a shape that has %lld",
                              static_cast<long long>(size_), static_cast<long long>(elements)));
    }
    // One dimension, of as many elements as the container has.
    template <class Container,
              class = typename std::enable_if<!std::is_same<typename std::decay<Container>::type, owned>::value>::type>
    TENON__HIDDEN explicit owned(Container &&container) : owned(nullptr, static_cast<Container &&>(container))
    {
        static_assert(
            Rank == 1,
            "this owned array needs a shape, because it does not have one dimension: {std::move(rows), {n, d}}");
        static_assert(decltype(attach(container, 0))::value,
                      "a smart pointer does not know its size: write {std::move(rows), {n}}");
        shape_[0] = size_;
    }
    TENON__HIDDEN owned(owned &&other) noexcept
    {
        take(other);
    }
    TENON__HIDDEN owned &operator=(owned &&other) noexcept
    {
        if (this != &other) {
            clear();
            take(other);
        }
        return *this;
    }
    TENON__HIDDEN ~owned()
    {
        clear();
    }

    // Gives the memory to the host, as a result of the call. One that is empty leaves the result as it is.
    TENON__HIDDEN tenon_status own(tenon_call *call, int index)
    {
        if (!owner_)
            return TENON_OK;
        tenon_status status = tenon_result_own(call, index, data_, Rank, shape_, nullptr, owner_, release_);
        if (status == TENON_OK)
            owner_ = nullptr;
        return status;
    }

  private:
    TENON__HIDDEN void clear()
    {
        if (owner_)
            release_(owner_);
        owner_ = nullptr;
    }
    TENON__HIDDEN void take(owned &other)
    {
        data_ = other.data_;
        owner_ = other.owner_;
        release_ = other.release_;
        size_ = other.size_;
        known_ = other.known_;
        for (int i = 0; i < Rank; i++)
            shape_[i] = other.shape_[i];
        other.owner_ = nullptr;
    }
    // Moves the container, and leaves the shape to the other constructors.
    template <class Container> TENON__HIDDEN owned(std::nullptr_t, Container &&container)
    {
        static_assert(!std::is_lvalue_reference<Container>::value, "move the container: std::move(rows)");
        using type = typename std::decay<Container>::type;
        type *moved = new type(static_cast<Container &&>(container));
        owner_ = moved;
        release_ = [](void *owner) { delete static_cast<type *>(owner); };
        known_ = attach(*moved, 0);
    }
    // Returns whether the container knows its size.
    template <class Container>
    TENON__HIDDEN_MEMBER auto attach(Container &c, int) -> decltype(c.data(), std::true_type())
    {
        static_assert(std::is_same<decltype(c.data()), Element *>::value,
                      "the container's elements have another dtype");
        data_ = c.data();
        size_ = static_cast<int64_t>(c.size());
        return {};
    }
    template <class Container>
    TENON__HIDDEN_MEMBER auto attach(Container &c, long) -> decltype(c.get(), std::false_type())
    {
        static_assert(std::is_same<decltype(c.get()), Element *>::value, "the container's elements have another dtype");
        data_ = c.get();
        return {};
    }

    Element *data_ = nullptr;
    void *owner_ = nullptr;
    void (*release_)(void *owner) = nullptr;
    int64_t size_ = 0;
    bool known_ = false; // whether the container has a size()
    int64_t shape_[Rank ? Rank : 1] = {};
};

// A tensor result. The host has allocated it, unless its size is not in the signature: then one of alloc, own and of is
// called before its elements are used, or none if it may be None.
template <class Element, int Rank> class out : public array<Element, Rank>
{
  public:
    TENON__HIDDEN out()
    {
    }
    TENON__HIDDEN out(tenon_call *call, int index) : call_(call), index_(index) // not yet allocated
    {
    }
    TENON__HIDDEN out(tenon_call *call, int index, const tenon_view &view)
        : array<Element, Rank>(view, true), call_(call), index_(index)
    {
    }

    // Allocates a result with '?' among its sizes, or after its type. If it fails, it throws; without exceptions, the array
    // stays empty.
    template <class... Size> TENON__HIDDEN_MEMBER void alloc(Size... sizes)
    {
        static_assert(Rank == any || static_cast<int>(sizeof...(sizes)) == Rank,
                      "alloc() needs one size for each dimension");
        const int64_t shape[sizeof...(sizes) + 1] = {static_cast<int64_t>(sizes)...};
        const tenon_view *view = tenon_result_alloc(call_, index_, static_cast<int>(sizeof...(sizes)), shape);
        if (view)
            array<Element, Rank>::operator=(array<Element, Rank>(*view, true));
        else
            impl::raise_failed();
    }
    // Gives memory of the library ('own' in the signature).
    TENON__HIDDEN void own(owned<Element, Rank> memory)
    {
        if (memory.own(call_, index_) != TENON_OK)
            impl::raise_failed();
    }
    // Shows memory of the object or of an argument ('of(...)' in the signature).
    TENON__HIDDEN void of(const array<const Element, Rank> &memory)
    {
        if (tenon_result_of(call_, index_, const_cast<Element *>(memory.data()), memory.ndim(), memory.shape(),
                            memory.strides()) != TENON_OK)
            impl::raise_failed();
    }

  private:
    tenon_call *call_ = nullptr;
    int index_ = 0;
};

#ifdef TENON_CHECK_INDICES
} // namespace checked
#endif
} // namespace tenon

#endif
