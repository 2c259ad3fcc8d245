// calls on one object of a concurrent class run at the same time, so take a shared reference
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[class(concurrent)]
    struct A;
    impl A {
    #[function("A.f(self)")] //~
    fn f(&mut self) {}
    }
}
fn main() {}
