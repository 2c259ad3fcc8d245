// unknown flag
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f()", fast)] //~
    fn f() {}
}
fn main() {}
