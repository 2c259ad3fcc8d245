// Arguments that are not tensors, where the language has no type for them: text, bytes, texts, optional, object. A type of
// the standard library takes their place if it can be made from the same values: a std::string_view, for example.
#ifndef TENON_CPP_VALUES_HPP
#define TENON_CPP_VALUES_HPP

#include <tenon/cpp/error.hpp>

#include <type_traits>

namespace tenon
{

// A string in UTF-8, terminated by 0. It is valid during the call.
class text
{
  public:
    TENON__HIDDEN text()
    {
    }
    TENON__HIDDEN text(const char *data, size_t size) : data_(data), size_(size)
    {
    }
    TENON__HIDDEN explicit operator bool() const // false if an optional argument was not given
    {
        return data_;
    }
    TENON__HIDDEN const char *data() const
    {
        return data_;
    }
    TENON__HIDDEN size_t size() const
    {
        return size_;
    }
    TENON__HIDDEN const char *begin() const
    {
        return data_;
    }
    TENON__HIDDEN const char *end() const
    {
        return data_ + size_;
    }
    TENON__HIDDEN bool operator==(const char *other) const // false if it was not given
    {
        return data_ && strlen(other) == size_ && memcmp(data_, other, size_) == 0;
    }
    TENON__HIDDEN bool operator!=(const char *other) const
    {
        return !(*this == other);
    }
    // A std::string, a std::string_view and their likes.
    template <class String, class = decltype(static_cast<const String *>(nullptr)->data()),
              class = typename std::enable_if<std::is_constructible<String, const char *, size_t>::value>::type>
    TENON__HIDDEN operator String() const
    {
        return String(data_, size_);
    }

  private:
    const char *data_ = nullptr;
    size_t size_ = 0;
};

// Bytes. They are valid during the call.
class bytes
{
  public:
    TENON__HIDDEN bytes()
    {
    }
    TENON__HIDDEN bytes(const unsigned char *data, size_t size) : data_(data), size_(size)
    {
    }
    TENON__HIDDEN explicit operator bool() const
    {
        return data_;
    }
    TENON__HIDDEN const unsigned char *data() const
    {
        return data_;
    }
    TENON__HIDDEN size_t size() const
    {
        return size_;
    }
    TENON__HIDDEN const unsigned char *begin() const
    {
        return data_;
    }
    TENON__HIDDEN const unsigned char *end() const
    {
        return data_ + size_;
    }

  private:
    const unsigned char *data_ = nullptr;
    size_t size_ = 0;
};

// A list of strings. It is valid during the call.
class texts
{
  public:
    TENON__HIDDEN texts()
    {
    }
    TENON__HIDDEN texts(const tenon_text *items, size_t size) : items_(items), size_(size)
    {
    }
    TENON__HIDDEN explicit operator bool() const
    {
        return items_;
    }
    TENON__HIDDEN size_t size() const
    {
        return size_;
    }
    TENON__HIDDEN text operator[](size_t i) const
    {
        return text(items_[i].data, items_[i].length);
    }

  private:
    const tenon_text *items_ = nullptr;
    size_t size_ = 0;
};

// A number that may be None, for those who do without <optional>.
template <class Value> class optional
{
  public:
    using value_type = Value;

    TENON__HIDDEN optional()
    {
    }
    TENON__HIDDEN optional(Value value) : value_(value), given_(true)
    {
    }
    TENON__HIDDEN bool has_value() const
    {
        return given_;
    }
    TENON__HIDDEN explicit operator bool() const
    {
        return given_;
    }
    TENON__HIDDEN const Value &operator*() const
    {
        return value_;
    }
    TENON__HIDDEN Value value_or(Value other) const
    {
        return given_ ? value_ : other;
    }
    // A std::optional.
    template <class Optional, class = decltype(static_cast<const Optional *>(nullptr)->has_value()),
              class = typename std::enable_if<std::is_same<typename Optional::value_type, Value>::value>::type>
    TENON__HIDDEN_MEMBER operator Optional() const
    {
        return given_ ? Optional(value_) : Optional();
    }

  private:
    Value value_ = Value();
    bool given_ = false;
};

// An object of a class, as an argument. A `C &` means the same, if it cannot be None.
template <class Class> class object
{
  public:
    TENON__HIDDEN object()
    {
    }
    TENON__HIDDEN explicit object(Class *pointer) : pointer_(pointer)
    {
    }
    TENON__HIDDEN explicit operator bool() const
    {
        return pointer_;
    }
    TENON__HIDDEN Class *get() const
    {
        return pointer_;
    }
    TENON__HIDDEN Class &operator*() const
    {
        return *pointer_;
    }
    TENON__HIDDEN Class *operator->() const
    {
        return pointer_;
    }

  private:
    Class *pointer_ = nullptr;
};

} // namespace tenon

#endif
