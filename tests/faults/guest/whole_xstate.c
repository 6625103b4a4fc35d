// The guest's kernel restores the floating-point registers of its processes by PTRACE_SETREGSET, from a buffer that is as
// large as they were on the processors of its day. This machine's kernel wants all of them or none: where its processor
// has more (AMX, for instance), the guest would not boot. So what it gives is completed by what is there.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef long (*ptrace_fn)(int request, pid_t pid, void *addr, void *data);

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_fn next;
	static unsigned char registers[1 << 16];
	struct iovec all = { registers, sizeof registers };
	va_list rest;
	pid_t pid;
	void *addr, *data;

	va_start(rest, request);
	pid = va_arg(rest, pid_t);
	addr = va_arg(rest, void *);
	data = va_arg(rest, void *);
	va_end(rest);
	if (!next)
		next = (ptrace_fn)dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_SETREGSET && (long)addr == NT_X86_XSTATE &&
	    next(PTRACE_GETREGSET, pid, addr, &all) == 0) {
		const struct iovec *given = data;

		if (given->iov_len < all.iov_len) {
			memcpy(registers, given->iov_base, given->iov_len);
			data = &all;
		}
	}
	return next(request, pid, addr, data);
}
