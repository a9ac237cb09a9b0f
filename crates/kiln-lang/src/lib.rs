//! The embedded kernel language: handles that record IR while a kernel is traced.
