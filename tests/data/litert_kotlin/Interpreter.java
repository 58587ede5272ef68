// Declarations of LiteRT's Interpreter for tests that type-check generated code; no code behind them.
// After litert/kotlin/src/copied_from_tflite/java/org/tensorflow/lite in the repository google-ai-edge/LiteRT.
package org.tensorflow.lite;

import java.io.File;
import java.util.Map;

public final class Interpreter implements AutoCloseable {
  public static class Options {
    public Options() {}
    public Options setNumThreads(int numThreads) { return this; }
    public Options setUseXNNPACK(boolean useXNNPACK) { return this; }
  }

  public Interpreter(File modelFile, Options options) {}
  public void runForMultipleInputsOutputs(Object[] inputs, Map<Integer, Object> outputs) {}
  public void runSignature(Map<String, Object> inputs, Map<String, Object> outputs, String signatureKey) {}
  public void runSignature(Map<String, Object> inputs, Map<String, Object> outputs) {}
  public void resizeInput(int index, int[] dims) {}
  public void allocateTensors() {}
  @Override public void close() {}
}
