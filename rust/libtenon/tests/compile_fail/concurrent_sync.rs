// `Cell<i64>` cannot be shared between threads safely
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[class(concurrent)]
    struct A(std::cell::Cell<i64>);
}
fn main() {}
