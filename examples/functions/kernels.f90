! A function in Fortran 2008. It declares the structs of tenon/function.h that it needs, with the same layout.
!
!   gfortran -std=f2008 -O3 -shared -fPIC kernels.f90 -o kernels.so
!
! tenon.load("kernels.so").column_means(x) takes an array in Fortran order: numpy.asfortranarray(...)
module kernels
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: tenon_module_v1

    integer(c_int32_t), parameter :: ok = 0, invalid = 1

    type, bind(c) :: tenon_view
        type(c_ptr) :: data
        integer(c_int32_t) :: device(2), ndim
        integer(c_int8_t) :: dtype(4)
        type(c_ptr) :: shape, strides
        integer(c_int64_t) :: byte_offset, flags, numel
    end type

    type, bind(c) :: tenon_value                ! for a tensor; for a float, `view` and `more` are one real(c_double) each
        integer(c_int32_t) :: kind, flags
        type(c_ptr) :: view
        integer(c_int64_t) :: more, reserved
    end type

    type, bind(c) :: tenon_host                 ! structs passed by pointer may be declared only as far as they are used
        integer(c_int32_t) :: size, minor
        type(c_ptr) :: name
        type(c_funptr) :: fail
    end type

    type, bind(c) :: tenon_call
        integer(c_int32_t) :: size, minor
        type(c_ptr) :: host, function, state, args, results
        integer(c_int32_t) :: nargs, nresults
        type(c_ptr) :: dims
    end type

    type, bind(c) :: tenon_function
        type(c_ptr) :: signature, doc
        type(c_funptr) :: call, shape
        type(c_ptr) :: data
        integer(c_int64_t) :: flags, reserved(2)
    end type

    type, bind(c) :: tenon_module
        integer(c_int64_t) :: magic
        integer(c_int32_t) :: major, minor_needed, size, function_size
        integer(c_int64_t) :: nfunctions
        type(c_ptr) :: functions, name, doc, version
        type(c_funptr) :: load, unload
        integer(c_int64_t) :: flags
    end type

    abstract interface
        function fail_function(call, status, message, length) bind(c)
            import
            type(tenon_call) :: call
            integer(c_int32_t), value :: status
            character(kind=c_char) :: message(*)
            integer(c_size_t), value :: length
            integer(c_int32_t) :: fail_function
        end function
    end interface

    character(kind=c_char, len=*), parameter :: signature_text = &
        'column_means(x: f64[rows, columns] f) -> f64[columns]' // c_null_char
    character(kind=c_char, len=*), parameter :: doc_text = 'Returns the mean of each column.' // c_null_char
    character(kind=c_char, len=*), parameter :: name_text = 'kernels' // c_null_char

    ! The host reads these for as long as the process lives.
    character(kind=c_char, len=len(signature_text)), target, save :: signature = signature_text
    character(kind=c_char, len=len(doc_text)), target, save :: doc = doc_text
    character(kind=c_char, len=len(name_text)), target, save :: name = name_text
    type(tenon_function), target, save :: functions(1)
    type(tenon_module), target, save :: table

contains

    function column_means(call) bind(c) result(status)
        type(tenon_call) :: call
        integer(c_int32_t) :: status
        integer(c_int64_t), pointer :: dims(:)
        real(c_double), pointer :: x(:, :), means(:)

        call c_f_pointer(call%dims, dims, [2])                          ! rows, columns
        call c_f_pointer(data_of(call%args), x, dims)
        call c_f_pointer(data_of(call%results), means, dims(2:))
        if (dims(1) == 0) then
            status = fail(call, invalid, 'there are no rows')
            return
        end if
        means = sum(x, dim=1) / real(dims(1), c_double)
        status = ok
    end function

    ! The memory of a tensor. The signature guarantees its kind, its dtype and Fortran order.
    function data_of(values) result(data)
        type(c_ptr), intent(in) :: values
        type(c_ptr) :: data
        type(tenon_value), pointer :: value
        type(tenon_view), pointer :: view

        call c_f_pointer(values, value)
        call c_f_pointer(value%view, view)
        data = view%data
    end function

    function fail(call, status, message)
        type(tenon_call) :: call
        integer(c_int32_t), intent(in) :: status
        character(kind=c_char, len=*), intent(in) :: message
        integer(c_int32_t) :: fail
        type(tenon_host), pointer :: host
        procedure(fail_function), pointer :: fail_of_host

        call c_f_pointer(call%host, host)
        call c_f_procpointer(host%fail, fail_of_host)
        fail = fail_of_host(call, status, message, len(message, c_size_t))
    end function

    ! Fortran has no constant addresses, so the table is filled in here, each time with the same values.
    function tenon_module_v1() bind(c, name='tenon_module_v1')
        type(c_ptr) :: tenon_module_v1

        functions(1) = tenon_function(c_loc(signature), c_loc(doc), c_funloc(column_means), c_null_funptr, &
            c_null_ptr, 0, [0, 0])
        table = tenon_module(int(z'444F4D4E4F4E4554', c_int64_t), 1, 0, int(c_sizeof(table), c_int32_t), &
            int(c_sizeof(functions(1)), c_int32_t), 1, c_loc(functions), c_loc(name), c_null_ptr, c_null_ptr, &
            c_null_funptr, c_null_funptr, 0)
        tenon_module_v1 = c_loc(table)
    end function

end module
