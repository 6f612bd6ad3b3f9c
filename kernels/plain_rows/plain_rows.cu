// `plain_rows` in CUDA C: a thread reads the bytes of one row until it finds one that is not plain.
//
// It reads the memory of cuDF's text columns as it is. Neighbouring threads read neighbouring rows,
// not neighbouring bytes; each thread's next bytes come with the same 32-byte sector, from the L1
// cache. What whitespace is comes from BERT's normaliser (Devlin et al. 2018): the same four bytes
// as in reference.py.
//
// Only built-in types: NVRTC has no headers. The row's own part is plain C++, so that a test can
// run this very source on a CPU.

#ifdef __CUDACC__
#define ON_DEVICE __device__
#else
#define ON_DEVICE
#endif

typedef unsigned char Byte;
typedef long long Index;

ON_DEVICE inline bool is_space(Byte byte) {
  return byte == 0x09 || byte == 0x0A || byte == 0x0D || byte == 0x20;
}

// Whether the bytes from begin to end are printable ASCII or whitespace, without a word that is
// longer than longest_word bytes.
ON_DEVICE inline bool is_plain(const Byte* bytes, Index begin, Index end, Index longest_word) {
  Index word = 0;
  for (Index at = begin; at < end; ++at) {
    const Byte byte = bytes[at];
    if (is_space(byte)) {
      word = 0;
    } else if (byte < 0x21 || byte > 0x7E || ++word > longest_word) {
      return false;
    }
  }
  return true;
}

#ifdef __CUDACC__
// bytes (T,), edges (rows + 1,) from 0 to T; plain (rows,) is written.
extern "C" __global__ void plain_rows(const Byte* bytes, const Index* edges, bool* plain, Index rows,
                                      Index longest_word) {
  const Index row = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < rows) {
    plain[row] = is_plain(bytes, edges[row], edges[row + 1], longest_word);
  }
}
#endif
