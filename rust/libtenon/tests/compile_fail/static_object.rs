// is not general enough
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[class]
    struct A;
    impl A {
    #[function("A.f(self)")]
    fn f(&'static self) {}
    }
}
fn main() {}
