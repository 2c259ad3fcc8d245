// `A` is not a class of the module
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    pub struct A;
    #[function("f(a: handle('A'))")]//~
    fn f(_: &A) {}
}
fn main() {}
