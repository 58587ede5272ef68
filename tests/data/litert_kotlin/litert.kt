// Declarations of LiteRT's Kotlin interface for tests that type-check generated code; no code behind them.
// After litert/kotlin/src/main/kotlin/com/google/ai/edge/litert in the repository google-ai-edge/LiteRT.
@file:Suppress("UNUSED_PARAMETER")

package com.google.ai.edge.litert

enum class Accelerator { NONE, CPU, GPU, NPU }

class Environment private constructor() : AutoCloseable {
  override fun close() = TODO()
}

class TensorBuffer internal constructor() : AutoCloseable {
  fun writeInt(data: IntArray): Unit = TODO()
  fun writeFloat(data: FloatArray): Unit = TODO()
  fun writeInt8(data: ByteArray): Unit = TODO()
  fun writeBoolean(data: BooleanArray): Unit = TODO()
  fun writeLong(data: LongArray): Unit = TODO()
  fun readInt(): IntArray = TODO()
  fun readFloat(): FloatArray = TODO()
  fun readInt8(): ByteArray = TODO()
  fun readBoolean(): BooleanArray = TODO()
  fun readLong(): LongArray = TODO()
  override fun close(): Unit = TODO()
}

class CompiledModel private constructor() : AutoCloseable {
  data class CpuOptions(
    val numThreads: Int? = null,
    val xnnPackFlags: Int? = null,
    val xnnPackWeightCachePath: String? = null
  )

  data class GpuOptions(val constantTensorSharing: Boolean? = null, val precision: Precision? = null) {
    enum class Precision { DEFAULT, FP16, FP32, FP16_WITH_FP32_ACCUM }
  }

  class Options(accelerators: Set<Accelerator>) {
    constructor(vararg accelerators: Accelerator) : this(setOf(*accelerators))
    var cpuOptions: CpuOptions? = null
    var gpuOptions: GpuOptions? = null

    companion object {
      @JvmStatic val CPU = Options(Accelerator.CPU)
    }
  }

  fun createInputBuffer(inputName: String, signature: String = ""): TensorBuffer = TODO()
  fun createOutputBuffer(outputName: String, signature: String = ""): TensorBuffer = TODO()
  fun run(inputs: List<TensorBuffer>, signatureIndex: Int = 0): List<TensorBuffer> = TODO()
  fun run(inputs: List<TensorBuffer>, signature: String): List<TensorBuffer> = TODO()
  fun run(inputs: List<TensorBuffer>, outputs: List<TensorBuffer>, signatureIndex: Int = 0): Unit = TODO()
  fun run(inputs: List<TensorBuffer>, outputs: List<TensorBuffer>, signature: String): Unit = TODO()
  fun run(inputs: Map<String, TensorBuffer>, outputs: Map<String, TensorBuffer>, signature: String = ""): Unit = TODO()
  override fun close(): Unit = TODO()

  companion object {
    @JvmStatic
    fun create(filePath: String, options: Options = Options.CPU, optionalEnv: Environment? = null): CompiledModel = TODO()
  }
}
